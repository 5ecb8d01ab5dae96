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
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError
from barnabas.cli.framework.numbers import whole_number
from barnabas.cli.server.server_logs import FORMATS, logging_to

if TYPE_CHECKING:
    from barnabas.cli.server.running_servers import ServerInfo

PROGRAM = "barnabas dev"
DEFAULT_PORT = 9092
MAX_PORT = 2**16 - 1
HOST = "127.0.0.1"
NODE_ID = 1


def run(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(PROGRAM, "Run a broker for development, on this machine only.")
    add = parser.add_argument
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
    add("--override", action="append", default=[], metavar="KEY=VALUE", help="set an option; may be repeated")
    add("--metrics", metavar="[HOST:]PORT", help="serve metrics for Prometheus at http://HOST:PORT/metrics")
    add("--log-format", choices=FORMATS, default="text", help="format of log lines (default text)")
    add("--verbose", action="store_true", help="log more than warnings")
    options = parser.parse(arguments)
    with _data_folder(options.data) as folder:
        return _serve(options, folder)


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

    from barnabas.broker.network.ports import CannotListenError
    from barnabas.cli.server.node_file import overrides_of
    from barnabas.cli.server.server_process import ServerProcess
    from barnabas.cli.server.server_start import parse_metrics
    from barnabas.config.errors import ConfigError
    from barnabas.config.node.node import read_node

    def on_listening(info: ServerInfo) -> None:
        _print_summary(info, folder, kept=options.data is not None)

    metrics_at = parse_metrics(options.metrics)
    overrides = overrides_of(PROGRAM, options.override)
    try:
        node = read_node({**settings(options.port, folder), **overrides})
        format_data(node, folder)
        with logging_to(None, options.log_format, logging.INFO if options.verbose else logging.WARNING):
            return ServerProcess(node, on_listening, metrics_at=metrics_at).run()
    except ConfigError as error:
        raise CommandError(f"barnabas: {error}") from error
    except CommandError as error:
        refused = error.__cause__
        if isinstance(refused, CannotListenError) and refused.option not in (*overrides, "--metrics"):
            raise CommandError(f"barnabas: {refused.by_option('--port')}") from error
        raise


def settings(port: int, folder: str) -> dict[str, str]:
    """The configuration of a single node; the controller uses any free port: no other node connects to it."""
    return {
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:0",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{NODE_ID}@{HOST}:0",
        "log.dirs": os.path.join(folder, "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }


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
    data = f"kept in {folder}" if kept else f"in {folder}, deleted at the end; use --data FOLDER to keep it"
    flag = f" --bootstrap-server {address}" if _needs_flag(info, address) else ""
    print(
        f"barnabas: a broker listens on {address} (cluster {info.cluster_id})\n"
        f"  bootstrap servers  {address}\n"
        f"  data               {data}\n"
        f"  see it             barnabas status\n"
        f"  try it             echo hello | barnabas produce greetings --create{flag}\n"
        "Ctrl+C stops it."
    )
    sys.stdout.flush()


def _needs_flag(info: ServerInfo, address: str) -> bool:
    """Whether a command without --bootstrap-server could reach another broker."""
    from barnabas.cli.friendly.framework import BOOTSTRAP_VARIABLE
    from barnabas.cli.server.running_servers import running_servers
    from barnabas.runtime.disk.folder_disk import FolderDisk

    if address != f"{HOST}:{DEFAULT_PORT}" or os.environ.get(BOOTSTRAP_VARIABLE, address) != address:
        return True
    try:
        servers = running_servers(FolderDisk())
    except OSError:
        return False
    return any("broker" in server.roles and server.pid != info.pid for server in servers)
