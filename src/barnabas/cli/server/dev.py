"""`barnabas dev`: one process, nothing to set up, on this machine only.

A broker and its controller in one, formatted on the way; data in a temporary folder that goes with it, or in
a folder that stays.
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
    parser = ArgumentParser(PROGRAM, "Run one broker for development, on this machine only.")
    add = parser.add_argument
    add(
        "--port",
        type=whole_number(0, MAX_PORT),
        default=DEFAULT_PORT,
        metavar="PORT",
        help="where it listens (default 9092)",
    )
    add("--data", metavar="FOLDER", help="keep the data here; without it, it is gone at the end")
    add("--override", action="append", default=[], metavar="KEY=VALUE", help="set an option; may be repeated")
    add("--metrics", metavar="[HOST:]PORT", help="serve metrics for Prometheus at http://HOST:PORT/metrics")
    add("--log-format", choices=FORMATS, default="text", help="how log lines look (default text)")
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

    def listening(info: ServerInfo) -> None:
        _greet(info, folder, kept=options.data is not None)

    metrics_at = parse_metrics(options.metrics)
    overrides = overrides_of(PROGRAM, options.override)
    try:
        node = read_node({**settings(options.port, folder), **overrides})
        format_data(node, folder)
        with logging_to(None, options.log_format, logging.INFO if options.verbose else logging.WARNING):
            return ServerProcess(node, listening, metrics_at=metrics_at).run()
    except ConfigError as error:
        raise CommandError(f"barnabas: {error}") from error
    except CommandError as error:
        refused = error.__cause__
        if isinstance(refused, CannotListenError) and refused.option not in (*overrides, "--metrics"):
            raise CommandError(f"barnabas: {refused.by_option('--port')}") from error
        raise


def settings(port: int, folder: str) -> dict[str, str]:
    """What a broker of its own needs; the controller takes any free port, as nobody else needs it."""
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
    """Format the folder if it is not: under a new cluster id, or the one it has."""
    from barnabas.cli.storage.format import carry_out, make_plan
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
    asked = Namespace(
        cluster_id=before.cluster_id or str(random_uuid(random)),
        release_version=None,
        feature=[],
        add_scram=[],
        standalone=False,
        no_initial_controllers=False,
        initial_controllers=None,
    )
    with contextlib.redirect_stdout(io.StringIO()):
        carry_out(make_plan(asked, node, random), disk, random, SystemClock(), ignore_formatted=True)


def _greet(info: ServerInfo, folder: str, *, kept: bool) -> None:
    place = info.listeners["PLAINTEXT"]
    data = f"kept in {folder}" if kept else f"in {folder}, gone at the end; --data FOLDER keeps it"
    flag = f" --bootstrap-server {place}" if _needs_flag(info, place) else ""
    print(
        f"barnabas: a broker listens on {place} (cluster {info.cluster_id})\n"
        f"  bootstrap servers  {place}\n"
        f"  data               {data}\n"
        f"  see it             barnabas status\n"
        f"  try it             echo hello | barnabas produce greetings --create{flag}\n"
        "Ctrl+C stops it."
    )
    sys.stdout.flush()


def _needs_flag(info: ServerInfo, place: str) -> bool:
    """Whether a command without --bootstrap-server could reach another broker than this one."""
    from barnabas.cli.friendly.framework import BOOTSTRAP_VARIABLE
    from barnabas.cli.server.running_servers import running_servers
    from barnabas.runtime.disk.folder_disk import FolderDisk

    if place != f"{HOST}:{DEFAULT_PORT}" or os.environ.get(BOOTSTRAP_VARIABLE, place) != place:
        return True
    try:
        servers = running_servers(FolderDisk())
    except OSError:
        return False
    return any("broker" in one.roles and one.pid != info.pid for one in servers)
