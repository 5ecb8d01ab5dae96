"""`barnabas timeline`: elections, fenced brokers, changes of leaders and ISRs, with their causes, in order.

From the files that nodes keep, also of nodes that are down; or from the metadata log of a running cluster,
also of Apache Kafka's, which has everything but the starts, stops and elections that nodes have seen alone.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.connecting import add_connection_flags
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.friendly.framework import FriendlyParser, add_output
from barnabas.cli.friendly.output import Column, Printer
from barnabas.cli.friendly.records.times import parse_time_ms, show_time
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk.folder_disk import FolderDisk

if TYPE_CHECKING:
    from barnabas.metadata.timeline import Event

PROGRAM = "barnabas timeline"
COLUMNS = (
    Column("time_ms", title="TIME", show=show_time),
    Column("epoch", is_number=True),
    Column("offset", is_number=True),
    Column("kind", title="EVENT"),
    Column("subject"),
    Column("detail"),
    Column("cause"),
    Column("nodes", title="SEEN BY", is_wide=True),
)


def make_parser() -> ArgumentParser:
    parser = FriendlyParser(
        PROGRAM,
        "Show what happened in a cluster and why: elections, fenced brokers, changes of leaders and ISRs.",
        "Without --bootstrap-server or --bootstrap-controller: of the local cluster, from its files.",
    )
    parser.add_argument(
        "--dir",
        action="append",
        default=[],
        metavar="FOLDER",
        help="folder of a local cluster, or log directory of a node; may be repeated",
    )
    parser.add_argument("--since", metavar="TIME", help="from this time on: -10m, 2026-03-01T12:00")
    add_connection_flags(parser, controllers=True)
    add_output(parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    since_ms = _since_ms(parser, options)
    from barnabas.metadata.timeline import merge

    events = [event for event in merge(_timelines(parser, options)) if event.time_ms >= since_ms]
    rows = [_row(event) for event in events]
    Printer(options.output, COLUMNS, name="kind").all(rows)
    return Exit.OK


def _since_ms(parser: ArgumentParser, options: Namespace) -> int:
    if options.since is None:
        return 0
    try:
        return parse_time_ms(options.since, SystemClock().wall_ms())
    except ValueError as error:
        parser.error(f"--since: {error}")


def _row(event: Event) -> dict[str, object]:
    return {
        **asdict(event),
        "kind": event.kind.value,
        "detail": event.detail or None,
        "cause": event.cause or None,
        "nodes": list(event.nodes),
    }


def _timelines(parser: ArgumentParser, options: Namespace) -> Iterator[Iterable[Event]]:
    if options.bootstrap_server or options.bootstrap_controller:
        if options.dir:
            parser.error("--dir and a bootstrap server cannot both be given")
        from barnabas.cli.timeline.log_events import events_of_log

        yield events_of_log(parser, options)
        return
    from barnabas.broker.timeline import read_timeline
    from barnabas.cli.cluster.layout import default_folder

    disk = FolderDisk()
    for folder in map(os.path.abspath, options.dir or [default_folder()]):
        for data in _data_folders(disk, folder):
            yield read_timeline(disk, data)


def _data_folders(disk: FolderDisk, folder: str) -> list[str]:
    """Those of a local cluster's nodes, or the folder itself."""
    from barnabas.broker.timeline import TIMELINE_FILE
    from barnabas.cli.cluster.layout import read_layout

    if disk.exists(os.path.join(folder, TIMELINE_FILE)):
        return [folder]
    layout = read_layout(disk, folder) if disk.is_folder(folder) else None
    if layout is None:
        raise CommandError(
            f"{PROGRAM}: no timeline and no local cluster in {folder}; for a running "
            "cluster give --bootstrap-server HOST:PORT, for a node's folder --dir",
            Exit.NOT_FOUND,
        )
    return [layout.data_folder(node) for node in layout.nodes]
