"""`barnabas consume`: print records, from a place to a place; `-f` goes on with what comes."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.exits import Exit
from barnabas.cli.framework.numbers import whole_number
from barnabas.cli.friendly.framework import (
    FriendlyParser,
    add_cluster,
    add_output,
    client_options,
    open_admin,
)
from barnabas.cli.friendly.output import Printer
from barnabas.cli.friendly.records import envelope
from barnabas.cli.friendly.records.times import PLACES

if TYPE_CHECKING:
    from barnabas.batch.engine.consume import ConsumerRecord
    from barnabas.client import TopicPartition

PROGRAM = "barnabas consume"


def make_parser() -> FriendlyParser:
    parser = FriendlyParser(PROGRAM, "Print the records of topics, up to where they end now.")
    add = parser.add_argument
    add("topic", nargs="+", metavar="TOPIC", help="which")
    add("--from", dest="start", metavar="PLACE", help=f"where to start: {PLACES}; default earliest")
    add("--to", dest="end", metavar="PLACE", help="where to end, likewise; default latest")
    add("-f", "--follow", action="store_true", help="go on with records as they come")
    add("-n", "--count", type=whole_number(1), metavar="N", help="end after so many records")
    add(
        "-p",
        "--partition",
        type=whole_number(0),
        action="append",
        metavar="N",
        help="only this one; may be repeated",
    )
    add("-g", "--group", metavar="GROUP", help="read as a member of this group, and commit what was printed")
    add("--uncommitted", action="store_true", help="also records of transactions that are open or aborted")
    add(
        "--value-only",
        action="store_true",
        help="print the bytes of the values, a line each, and nothing else",
    )
    add_output(parser)
    add_cluster(parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    if options.group and (
        options.partition or options.end or options.start not in (None, "earliest", "latest")
    ):
        parser.error(
            "with --group the group knows where to go on: --from earliest or latest is for its first time"
        )
    if options.end and options.follow:
        parser.error("--to ends it, --follow does not: give one of them")
    show(options, _read(parser, options))
    return Exit.OK


def _taken(polls: Iterable[list[ConsumerRecord]], count: int | None) -> Iterator[list[ConsumerRecord]]:
    """No more than so many records."""
    left = count
    for records in polls:
        if left is not None and len(records) >= left:
            yield records[:left]
            return
        if left is not None:
            left -= len(records)
        yield records


def _read(parser: FriendlyParser, options: Namespace) -> Iterator[list[ConsumerRecord]]:
    from barnabas.cli.friendly.progress import Progress
    from barnabas.cli.friendly.records.reader import read, read_as_member
    from barnabas.client.sync import Consumer

    settings = consumer_settings(parser, options)
    if options.group:
        _check_topics(parser, options)
        with Consumer(settings) as consumer:
            yield from read_as_member(consumer, options.topic, options.count, is_endless=options.follow)
        return
    starts, ends = _range(parser, options)
    total = None if options.follow else sum(max(0, ends[where] - starts[where]) for where in starts)
    # On a terminal the records themselves show how far it is.
    with (
        Consumer(settings) as consumer,
        Progress("reading", total, is_shown=not sys.stdout.isatty()) as progress,
    ):
        polls = read(consumer, starts, None if options.follow else ends)
        for records in _taken(polls, options.count):
            progress.add(len(records))
            yield records


def consumer_settings(parser: FriendlyParser, options: Namespace) -> dict[str, object]:
    settings = client_options(parser, options)
    settings["isolation.level"] = "read_uncommitted" if options.uncommitted else "read_committed"
    settings["enable.auto.commit"] = "false"
    # The log may be cut or cleaned while it is read: what is left is what is wanted.
    settings["auto.offset.reset"] = "earliest"
    if options.group:
        settings["group.id"] = options.group
        settings["auto.offset.reset"] = options.start or "earliest"
    return settings


def _check_topics(parser: FriendlyParser, options: Namespace) -> None:
    """A group would wait for a topic that is not there."""
    from barnabas.cli.friendly.records.places import partitions_of

    with open_admin(parser, options) as admin:
        for topic in options.topic:
            partitions_of(admin, topic, None)


def _range(
    parser: FriendlyParser, options: Namespace
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where to start and to end in each partition, within what is there."""
    from barnabas.cli.friendly.records.places import log_edges, partitions_of, place_option, resolve

    start = place_option(parser, "--from", options.start or "earliest")
    end = place_option(parser, "--to", options.end or "latest")
    with open_admin(parser, options) as admin:
        partitions = [
            where for topic in options.topic for where in partitions_of(admin, topic, options.partition)
        ]
        edges = log_edges(admin, partitions)
        starts, ends = resolve(admin, start, edges), resolve(admin, end, edges)
    return (
        {where: min(max(starts[where], first), last) for where, (first, last) in edges.items()},
        {where: min(ends[where], last) for where, (_, last) in edges.items()},
    )


# Printing ---------------------------------------------------------------------------------------------------


def show(options: Namespace, polls: Iterable[list[ConsumerRecord]]) -> None:
    """Print records as they come."""
    if options.value_only:
        out = sys.stdout.buffer
        for records in polls:
            for record in records:
                value = record.value
                out.write((value if isinstance(value, bytes) else b"") + b"\n")
            out.flush()
        return
    printer = Printer(options.output, envelope.COLUMNS, name=envelope.name_of, is_endless=options.follow)
    for records in polls:
        for record in records:
            printer.row(envelope.row_of(record))
        if options.follow:
            printer.flush()
    printer.end()
