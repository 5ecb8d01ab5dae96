"""`barnabas dev`: a broker for development, without setup, on this machine only.

Broker and controller in one process, with storage formatted automatically; the data is in a temporary folder
that is deleted at the end, or in a given folder.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError
from barnabas.cli.framework.numbers import whole_number
from barnabas.cli.framework.text.terminal import tell
from barnabas.cli.server.server_logs import FORMATS, logging_to

if TYPE_CHECKING:
    from barnabas.cli.server.running_servers import ServerInfo

PROGRAM = "barnabas dev"
DEFAULT_PORT = 9092
MAX_PORT = 2**16 - 1
# In one process.
MAX_BROKERS = 9
HOST = "127.0.0.1"
NODE_ID = 1
ANY_ADDRESS = ("0.0.0.0", "::", "*")  # compared with, not bound  # nosec B104


def run(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(
        PROGRAM,
        "Run a broker for development, without setup.",
    )
    _add_options(parser.add_argument)
    options = parser.parse(arguments)
    if options.control is not None:
        return _serve_tests(parser, options)
    if options.brokers != 1:
        parser.error("--brokers needs --control; see barnabas cluster for a cluster of processes")
    if options.host in ANY_ADDRESS and not options.advertise:
        parser.error(f"--host {options.host} needs --advertise HOST: the host that clients connect to")
    options.topic = [_topic(parser, text) for text in options.topic]
    with _data_folder(options.data) as folder:
        return _serve(options, folder)


def _add_options(add: Callable[..., object]) -> None:
    add(
        "--port",
        type=whole_number(0, MAX_PORT),
        default=DEFAULT_PORT,
        metavar="PORT",
        help="port to listen on (default 9092)",
    )
    add(
        "--data",
        metavar="FOLDER",
        help="keep the data here (default: a temporary folder, deleted at the end)",
    )
    add(
        "--host",
        default=HOST,
        metavar="HOST",
        help="address to listen on (default 127.0.0.1, this machine only)",
    )
    add(
        "--advertise",
        metavar="HOST",
        help="host that clients connect to (default: --host; needed with --host 0.0.0.0)",
    )
    add(
        "--topic",
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS]",
        help="create this topic at the start; may be repeated",
    )
    add("--override", action="append", default=[], metavar="KEY=VALUE", help="set an option; may be repeated")
    add("--metrics", metavar="[HOST:]PORT", help="serve metrics for Prometheus at http://HOST:PORT/metrics")
    add("--log-format", choices=FORMATS, default="text", help="format of log lines (default text)")
    add("--verbose", action="store_true", help="log more than warnings")
    add(
        "--control",
        type=whole_number(0, MAX_PORT),
        metavar="PORT",
        help="for tests: brokers in memory, with faults, outages and time over HTTP at this port",
    )
    add(
        "--brokers",
        type=whole_number(1, MAX_BROKERS),
        default=1,
        metavar="N",
        help="with --control: how many brokers, at this port and the next ones (default 1)",
    )


def _serve_tests(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.cli.server.dev_control import serve
    from barnabas.cli.server.node_file import overrides_of

    if options.data is not None or options.metrics is not None:
        parser.error(
            "with --control everything is in memory: --data and --metrics cannot be combined with it"
        )
    if options.host != HOST or options.advertise or options.topic:
        parser.error("with --control brokers serve this machine: no --host, --advertise or --topic")
    return serve(options, overrides_of(PROGRAM, options.override))


@contextlib.contextmanager
def _data_folder(given: str | None) -> Iterator[str]:
    if given is not None:
        yield os.path.abspath(given)
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="barnabas-dev-") as folder:
        yield folder


def _serve(options: Namespace, folder: str) -> int:
    import logging

    from barnabas.cli.server.garbage import collect_seldom

    collect_seldom()
    from barnabas.broker.network.ports import CannotListenError
    from barnabas.cli.server.node_file import overrides_of
    from barnabas.cli.server.server_process import ServerProcess
    from barnabas.cli.server.server_start import parse_metrics
    from barnabas.config.errors import ConfigError
    from barnabas.config.node.node import read_node

    def on_listening(info: ServerInfo) -> None:
        if options.advertise:
            port = info.listeners["PLAINTEXT"].rpartition(":")[2]
            reached = {"PLAINTEXT": f"{_in_address(options.advertise)}:{port}"}
            info = replace(info, listeners={**info.listeners, **reached})
        _print_summary(info, folder, kept=options.data is not None)
        if options.topic:
            address = info.listeners["PLAINTEXT"]
            process.aside(lambda: _create_topics(address, options.topic), _topics_failed)

    metrics_at = parse_metrics(options.metrics)
    overrides = overrides_of(PROGRAM, options.override)
    try:
        node = read_node({**settings(options.port, folder, options.host, options.advertise), **overrides})
        format_data(node, folder)
        with logging_to(None, options.log_format, logging.INFO if options.verbose else logging.WARNING):
            process = ServerProcess(node, on_listening, metrics_at=metrics_at, is_dev=True)
            return process.run()
    except ConfigError as error:
        raise CommandError(f"barnabas: {error}") from error
    except CommandError as error:
        refused = error.__cause__
        if isinstance(refused, CannotListenError) and refused.option not in (*overrides, "--metrics"):
            raise CommandError(f"barnabas: {refused.by_option('--port')}") from error
        raise


def settings(port: int, folder: str, host: str = HOST, advertised: str | None = None) -> dict[str, str]:
    """The configuration of a single node; the controller uses any free port: no other node connects to it."""
    place, reached = _in_address(host), _in_address(advertised or host)
    return {
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "listeners": f"PLAINTEXT://{place}:{port},CONTROLLER://{HOST}:0",
        "advertised.listeners": f"PLAINTEXT://{reached}:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{NODE_ID}@{HOST}:0",
        "log.dirs": os.path.join(folder, "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }


def _in_address(host: str) -> str:
    """An IPv6 address has brackets before a port."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _topic(parser: ArgumentParser, text: str) -> tuple[str, int | None]:
    """`orders` or `orders:3`."""
    from barnabas.base.topic_names import fault_of

    name, colon, number = text.partition(":")
    fault = fault_of(name)
    if fault is not None:
        parser.error(f"--topic {text}: {fault}")
    if colon and not (number.isdecimal() and int(number) > 0):
        parser.error(f"--topic {text}: write NAME or NAME:PARTITIONS")
    return name, int(number) if colon else None


def _create_topics(address: str, topics: Sequence[tuple[str, int | None]]) -> None:
    """On a thread of its own: the broker serves its own client."""
    from barnabas.client.admin import NewTopic
    from barnabas.client.errors import TopicAlreadyExistsError
    from barnabas.client.sync.topics import TopicAdmin

    wanted = [NewTopic(name) if count is None else NewTopic(name, count) for name, count in topics]
    with TopicAdmin(bootstrap_servers=address) as admin:
        for name, error in admin.create_topics(wanted).errors.items():
            if not isinstance(error, TopicAlreadyExistsError):
                raise CommandError(f"{PROGRAM}: --topic {name}: {error.message}") from error
    print(f"  topics             {', '.join(name for name, _ in topics)}", flush=True)


def _topics_failed(error: BaseException) -> None:
    tell(str(error))


def format_data(node: object, folder: str) -> None:
    """Formats the folder if necessary, with a new cluster id or the existing one."""
    from barnabas.cli.storage.format import format_all, make_plan
    from barnabas.config.node.node import Node
    from barnabas.runtime.clock import SystemClock
    from barnabas.runtime.disk.folder_disk import FolderDisk
    from barnabas.runtime.random import SystemRandom, random_uuid
    from barnabas.storage.directories.meta_properties import MetaPropertiesEnsemble

    assert isinstance(node, Node)
    disk, random = FolderDisk(), SystemRandom()
    before = MetaPropertiesEnsemble.load(disk, node.log_dirs)
    if not before.unformatted:
        return
    options = Namespace(
        cluster_id=before.cluster_id or str(random_uuid(random)),
        release_version=None,
        feature=[],
        add_scram=[],
        standalone=False,
        no_initial_controllers=False,
        initial_controllers=None,
    )
    with contextlib.redirect_stdout(io.StringIO()):
        format_all(make_plan(options, node, random), disk, random, SystemClock(), ignore_formatted=True)


def _print_summary(info: ServerInfo, folder: str, *, kept: bool) -> None:
    address = info.listeners["PLAINTEXT"]
    data = f"kept in {folder}" if kept else f"in {folder}, deleted at the end"
    # With the flag the line is too long for 80 columns.
    flag, gap = (f" -b {address}", "\n    ") if _needs_flag(info, address) else ("", " " * 13)
    print(
        f"barnabas: a broker listens on {address} (cluster {info.cluster_id})\n"
        f"  bootstrap servers  {address}\n"
        f"  data               {data}\n"
        + ("" if kept else "  keep it            barnabas dev --data FOLDER\n")
        + (f"  metrics            http://{info.metrics}/metrics\n" if info.metrics else "")
        + "  see it             barnabas status\n"
        f"  try it{gap}echo hello | barnabas produce greetings --create{flag}\n"
        "Ctrl+C stops it."
    )
    sys.stdout.flush()


def _needs_flag(info: ServerInfo, address: str) -> bool:
    """Whether a command without --bootstrap-server could reach another broker."""
    from barnabas.cli.friendly.target.contexts import Contexts
    from barnabas.cli.friendly.target.resolve import BOOTSTRAP_VARIABLE, CONTEXT_VARIABLE
    from barnabas.cli.server.running_servers import running_servers
    from barnabas.runtime.disk.folder_disk import FolderDisk

    if address != f"{HOST}:{DEFAULT_PORT}" or os.environ.get(BOOTSTRAP_VARIABLE, address) != address:
        return True
    if os.environ.get(CONTEXT_VARIABLE) or Contexts().current is not None:
        return True
    try:
        servers = running_servers(FolderDisk())
    except OSError:
        return False
    return any("broker" in server.roles and server.pid != info.pid for server in servers)
