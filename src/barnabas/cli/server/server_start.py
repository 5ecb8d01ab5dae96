"""`barnabas server-start`: runs a node from its server.properties, in the foreground or as a daemon."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.exits import CommandError, Exit, UsageError, one_line
from barnabas.cli.server.server_logs import FORMATS, logging_to
from barnabas.config.errors import ConfigError

if TYPE_CHECKING:
    from barnabas.runtime.network.network import Address

PROGRAM = "barnabas server-start"
_LISTENING = b"listening "
_FAILED = b"failed "


def run(arguments: Sequence[str]) -> int:
    parser = KafkaParser(PROGRAM, "Run a node from a server.properties file.")
    add = parser.add_argument
    add("file", metavar="FILE", help="the server.properties to use")
    add(
        "-daemon",
        "--daemon",
        action="store_true",
        help="run in the background; return when the node listens or has failed",
    )
    add(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override an option of the file; may be repeated",
    )
    add(
        "--metrics",
        metavar="[HOST:]PORT",
        help="serve metrics for Prometheus at http://HOST:PORT/metrics (default host 127.0.0.1)",
    )
    add("--log-format", choices=FORMATS, default="text", help="format of log lines (default text)")
    options = parser.parse(arguments)
    return _start_daemon(options) if options.daemon else _run_in_process(options, None)


def _run_in_process(options: Namespace, ready_fd: int | None) -> int:
    """Serves in this process; writes to the descriptor when the node listens."""
    from barnabas.cli.server.garbage import collect_seldom

    collect_seldom()
    from barnabas.cli.server.node_file import overrides_of, read_properties
    from barnabas.cli.server.running_servers import ServerInfo
    from barnabas.cli.server.server_process import ServerProcess
    from barnabas.config.node.node import read_node
    from barnabas.runtime.disk.folder_disk import FolderDisk

    metrics_at = parse_metrics(options.metrics)
    overrides = overrides_of(PROGRAM, options.override)
    try:
        given = read_properties(FolderDisk(), options.file)
        node = read_node({**given, **overrides})
        log = None if ready_fd is None else _log_path(node.node_id)

        def on_listening(info: ServerInfo) -> None:
            if ready_fd is not None:
                os.write(ready_fd, _LISTENING + f"{info.pid} {log}\n".encode())
                os.close(ready_fd)

        config = os.path.abspath(options.file)
        with logging_to(log, options.log_format), _logging_fatal_error(log):
            return ServerProcess(node, on_listening, config=config, log=log, metrics_at=metrics_at).run()
    except ConfigError as error:
        raise CommandError(f"{options.file}: {error}") from error


def _log_path(node_id: int) -> str:
    from barnabas.cli.server.running_servers import LOG_VARIABLE, log_folder, unusable_folder

    folder = log_folder()
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise CommandError(f"barnabas: {unusable_folder(error, folder, LOG_VARIABLE)}") from error
    return os.path.join(folder, f"server-{node_id}.log")


@contextlib.contextmanager
def _logging_fatal_error(log: str | None) -> Iterator[None]:
    """Logs the fatal error too: a daemon has no terminal."""
    try:
        yield
    except Exception as error:
        if log is not None:
            import logging

            from barnabas.cli.main import explain

            logging.getLogger(__name__).critical("%s", explain(error)[0])
        raise


def parse_metrics(text: str | None) -> Address | None:
    """`9404`, `0.0.0.0:9404` or `[::1]:9404`."""
    if text is None:
        return None
    from barnabas.runtime.network.network import Address

    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"--metrics: {text} is not [HOST:]PORT")
    return Address(host.strip("[]") or "127.0.0.1", int(port))


# As a daemon ------------------------------------------------------------------------------------------------


def _start_daemon(options: Namespace) -> int:
    """Forks; the parent waits until the child listens or has failed, and reports the result."""
    read_fd, write_fd = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(read_fd)
        _run_daemon(options, write_fd)
    os.close(write_fd)
    with os.fdopen(read_fd, "rb") as pipe:
        message = pipe.read()
    if message.startswith(_LISTENING):
        pid, _, log = message[len(_LISTENING) :].decode().strip().partition(" ")
        print(f"barnabas: the server listens (pid {pid}, log {log})")
        return Exit.OK
    if message.startswith(_FAILED):
        code, _, line = message[len(_FAILED) :].decode().strip().partition(" ")
        raise CommandError(line, Exit(int(code)))
    raise CommandError(f"barnabas: the server ended before it listened (pid {child})")


def _run_daemon(options: Namespace, ready_fd: int) -> NoReturn:
    """Runs in the child, in a new session without a terminal; never returns."""
    from barnabas.cli.main import explain

    code = int(Exit.FAILED)
    try:
        os.setsid()
        os.set_inheritable(ready_fd, False)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        code = _run_in_process(options, ready_fd)
    except Exception as error:
        line, code = explain(error)
        # Once the node listens, the parent has closed the pipe.
        with contextlib.suppress(OSError):
            os.write(ready_fd, _FAILED + f"{int(code)} {one_line(line)}".encode())
    finally:
        os._exit(int(code))
