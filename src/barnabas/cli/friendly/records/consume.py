"""`barnabas consume`: print records between two positions; `-f` follows new records."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.exits import Exit
from barnabas.cli.framework.numbers import whole_number
from barnabas.cli.friendly.framework import add_cluster, add_output, client_options, open_admin
from barnabas.cli.friendly.output import Printer, check_reader
from barnabas.cli.friendly.records import envelope
from barnabas.cli.friendly.records.decoding import bytes_of, deserializers, format_errors
from barnabas.cli.friendly.records.selection import (
    RecordParser,
    add_selection,
    check_selection,
    chosen,
    nested,
    render,
)
from barnabas.cli.friendly.records.times import POSITIONS

if TYPE_CHECKING:
    from barnabas.batch.engine.consume import ConsumerRecord
    from barnabas.cli.friendly.progress import Progress
    from barnabas.client import TopicPartition

PROGRAM = "barnabas consume"
NOTHING_READ = "no records in this range; -f waits for new ones"


def make_parser() -> RecordParser:
    parser = RecordParser(
        PROGRAM,
        "Print the records of topics, up to their current end.",
    )
    add = parser.add_argument
    add("topic", nargs="+", metavar="TOPIC", help="topics to read")
    add("--from", dest="start", metavar="POSITION", help=f"where to start: {POSITIONS}; default earliest")
    add("--to", dest="end", metavar="POSITION", help="where to end; default latest")
    add("-f", "--follow", action="store_true", help="keep printing new records")
    add("-n", "--count", type=whole_number(1), metavar="N", help="exit after N records")
    add(
        "-p",
        "--partition",
        type=whole_number(0),
        action="append",
        metavar="N",
        help="only this partition; may be repeated",
    )
    add(
        "-g",
        "--group",
        metavar="GROUP",
        help="read as a member of this group, and commit the printed records",
    )
    add("--uncommitted", action="store_true", help="include records of open and aborted transactions")
    add(
        "--value-only",
        action="store_true",
        help="print only the bytes of the values, one per line",
    )
    add_selection(parser)
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
            "--group starts at the committed offsets: only --from earliest or latest, for a new group"
        )
    check_selection(parser, options)
    if options.end and options.follow:
        parser.error("--to and --follow cannot be combined")
    with format_errors(PROGRAM):
        show(options, _read(parser, options))
    return Exit.OK


def _taken(polls: Iterable[list[ConsumerRecord]], count: int | None) -> Iterator[list[ConsumerRecord]]:
    """At most `count` records."""
    left = count
    for records in polls:
        if left is not None and len(records) >= left:
            yield records[:left]
            return
        if left is not None:
            left -= len(records)
        yield records


def _read(parser: RecordParser, options: Namespace) -> Iterator[list[ConsumerRecord]]:
    from barnabas.cli.friendly.progress import Progress
    from barnabas.cli.friendly.records.reader import read, read_as_member
    from barnabas.client.sync import Consumer

    settings = consumer_settings(parser, options)
    if options.group:
        _check_topics(parser, options)
        with Consumer(settings) as consumer:
            member = read_as_member(consumer, options.topic, options.count, is_endless=options.follow)
            yield from chosen(options, member)
        return
    starts, ends = _range(parser, options)
    total = (
        None if options.follow else sum(max(0, ends[partition] - starts[partition]) for partition in starts)
    )
    # On a terminal the records themselves show the progress.
    with (
        Consumer(settings) as consumer,
        Progress("reading", total, is_shown=not sys.stdout.isatty()) as progress,
    ):
        polls = read(consumer, starts, None if options.follow else ends)
        yield from _taken(chosen(options, _counted(polls, progress)), options.count)


def _counted(polls: Iterable[list[ConsumerRecord]], progress: Progress) -> Iterator[list[ConsumerRecord]]:
    for records in polls:
        progress.add(len(records))
        yield records


def consumer_settings(parser: RecordParser, options: Namespace) -> dict[str, object]:
    settings = client_options(parser, options)
    settings["isolation.level"] = "read_uncommitted" if options.uncommitted else "read_committed"
    settings["enable.auto.commit"] = "false"
    settings.update(deserializers(parser, options))
    # Retention or compaction may delete records while they are read: continue with the remaining ones.
    settings["auto.offset.reset"] = "earliest"
    if options.group:
        settings["group.id"] = options.group
        settings["auto.offset.reset"] = options.start or "earliest"
    return settings


def _check_topics(parser: RecordParser, options: Namespace) -> None:
    """A group would wait for a topic that does not exist."""
    from barnabas.cli.friendly.records.positions import partitions_of

    with open_admin(parser, options) as admin:
        for topic in options.topic:
            partitions_of(admin, topic, None)


def _range(
    parser: RecordParser, options: Namespace
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The start and end offset in each partition, within the log."""
    from barnabas.cli.friendly.records.positions import log_ranges, partitions_of, position_option, resolve

    start = position_option(parser, "--from", options.start or "earliest")
    end = position_option(parser, "--to", options.end or "latest")
    with open_admin(parser, options) as admin:
        partitions = [
            partition
            for topic in options.topic
            for partition in partitions_of(admin, topic, options.partition)
        ]
        ranges = log_ranges(admin, partitions)
        starts, ends = resolve(admin, start, ranges), resolve(admin, end, ranges)
    return (
        {partition: min(max(starts[partition], first), last) for partition, (first, last) in ranges.items()},
        {partition: min(ends[partition], last) for partition, (_, last) in ranges.items()},
    )


# Printing ---------------------------------------------------------------------------------------------------


def show(options: Namespace, polls: Iterable[list[ConsumerRecord]]) -> None:
    """Prints records as they arrive."""
    if options.template is not None:
        out = sys.stdout.buffer
        for records in polls:
            for record in records:
                out.write(render(options.template, record))
            out.flush()
            check_reader(sys.stdout)
        return
    if options.value_only:
        out = sys.stdout.buffer
        for records in polls:
            for record in records:
                out.write(bytes_of(record.value) + b"\n")
            out.flush()
            check_reader(sys.stdout)
        return
    printer = Printer(
        options.output,
        envelope.COLUMNS,
        name=envelope.name_of,
        is_endless=options.follow,
        empty="" if options.follow else NOTHING_READ,
    )
    for records in polls:
        for record in records:
            row = envelope.row_of(record)
            printer.row(nested(row) if options.nested else row)
        if options.follow:
            printer.flush()
            check_reader(sys.stdout)
    printer.end()
