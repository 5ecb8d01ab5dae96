"""`barnabas tail`: the last records of topics, then new ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.exits import Exit
from barnabas.cli.framework.numbers import whole_number
from barnabas.cli.friendly.framework import add_cluster, add_output, open_admin
from barnabas.cli.friendly.records import consume
from barnabas.cli.friendly.records.decoding import format_errors
from barnabas.cli.friendly.records.selection import RecordParser, add_selection, check_selection, chosen
from barnabas.cli.friendly.records.times import FromEnd

if TYPE_CHECKING:
    from argparse import Namespace

    from barnabas.batch.engine.consume import ConsumerRecord

PROGRAM = "barnabas tail"
DEFAULT_COUNT = 10


def make_parser() -> RecordParser:
    parser = RecordParser(
        PROGRAM,
        "Print the last records of topics, then new ones, until Ctrl+C.",
    )
    add = parser.add_argument
    add("topic", nargs="+", metavar="TOPIC", help="topics to read")
    add(
        "-n",
        "--count",
        type=whole_number(0),
        default=DEFAULT_COUNT,
        metavar="N",
        help=f"number of records (default {DEFAULT_COUNT})",
    )
    add("-f", "--follow", action="store_true", default=True, help="keep printing new records; the default")
    add("--no-follow", dest="follow", action="store_false", help="do not wait for new records")
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
    options.group = None
    check_selection(parser, options)
    with format_errors(PROGRAM):
        consume.show(options, chosen(options, _read(parser, options)))
    return Exit.OK


def _read(parser: RecordParser, options: Namespace) -> Iterator[list[ConsumerRecord]]:
    from barnabas.cli.friendly.records.positions import log_ranges, partitions_of, resolve
    from barnabas.cli.friendly.records.reader import read
    from barnabas.client.sync import Consumer

    settings = consume.consumer_settings(parser, options)
    with open_admin(parser, options) as admin:
        partitions = [partition for topic in options.topic for partition in partitions_of(admin, topic, None)]
        ranges = log_ranges(admin, partitions)
        starts = resolve(admin, FromEnd(options.count), ranges)
    ends = {partition: last for partition, (_, last) in ranges.items()}
    with Consumer(settings) as consumer:
        last = [record for records in read(consumer, starts, ends) for record in records]
        last.sort(key=lambda record: record.timestamp)
        yield last[len(last) - min(options.count, len(last)) :]
        if options.follow:
            yield from read(consumer, ends, None)
