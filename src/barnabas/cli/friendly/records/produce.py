"""`barnabas produce`: send lines, or records printed by `consume -o jsonl`."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.numbers import whole_number
from barnabas.cli.framework.text.terminal import tell
from barnabas.cli.friendly.framework import (
    FriendlyParser,
    add_cluster,
    add_output,
    client_options,
    open_admin,
    report_errors,
)
from barnabas.cli.friendly.output import Column, Printer
from barnabas.cli.friendly.records import envelope
from barnabas.cli.friendly.records.envelope import RecordToSend

if TYPE_CHECKING:
    from barnabas.base.errors import KafkaError
    from barnabas.client import RecordMetadata

PROGRAM = "barnabas produce"
LINES, RECORDS, AUTO = "lines", "jsonl", "auto"
# No broker accepts a record of this size.
MAX_LINE_BYTES = 256 * 1024 * 1024
# How many different errors are reported.
MAX_ERRORS_SHOWN = 10
COLUMNS = (
    Column("topic"),
    Column("partition", is_number=True),
    Column("records", is_number=True),
    Column("first_offset", is_number=True),
    Column("last_offset", is_number=True),
)


def make_parser() -> FriendlyParser:
    parser = FriendlyParser(
        PROGRAM,
        "Send each line of files or of the standard input as the value of a record.",
        "The output of `barnabas consume -o jsonl` is read back as the same records,\nwith keys and headers.",
    )
    add = parser.add_argument
    add(
        "topic", metavar="TOPIC", help="the topic to send to; - for the topic of each record of a JSONL input"
    )
    add("file", nargs="*", default=[], metavar="FILE", help="files to send (default: stdin)")
    add(
        "-i",
        "--input",
        choices=(AUTO, LINES, RECORDS),
        default=AUTO,
        help="lines are values, or records printed by `consume -o jsonl` (default: by the first line)",
    )
    add("-k", "--key", metavar="KEY", help="the key of all records")
    add("-s", "--key-separator", metavar="TEXT", help="separates the key from the value in a line")
    add(
        "-H",
        "--header",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a header of all records; may be repeated",
    )
    add("-p", "--partition", type=whole_number(0), metavar="N", help="the partition (default: by key)")
    add(
        "--keep-partitions",
        action="store_true",
        help="JSONL input: send each record to the partition it came from",
    )
    add(
        "--new-timestamps",
        action="store_true",
        help="JSONL input: use the current time instead of the original timestamps",
    )
    add("--compression", metavar="TYPE", help="none, gzip, snappy, lz4 or zstd (default none)")
    add("--create", action="store_true", help="create the topic if it does not exist")
    add_output(parser)
    add_cluster(parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    options.headers = tuple(_header(parser, text) for text in options.header)
    if options.topic != "-":
        _check_topic(parser, options)
    deliveries = Deliveries()
    try:
        with opened(options.file) as (streams, total):
            _send(parser, options, streams, total, deliveries)
    finally:
        Printer(options.output, COLUMNS, name=lambda row: f"{row['topic']}-{row['partition']}").all(
            deliveries.rows()
        )
    if not deliveries.failed:
        return Exit.OK
    code = report_errors(PROGRAM, deliveries.errors)
    were = "record was" if deliveries.failed == 1 else "records were"
    tell(f"{PROGRAM}: {deliveries.failed} {were} not written")
    return code


def _header(parser: FriendlyParser, text: str) -> tuple[str, bytes]:
    key, equals, value = text.partition("=")
    if not equals:
        parser.error(f"--header {text}: write KEY=VALUE")
    return key, value.encode()


def _check_topic(parser: FriendlyParser, options: Namespace) -> None:
    """A typing mistake must not create a topic."""
    from barnabas.base.errors import ErrorCode
    from barnabas.client import NewTopic

    with open_admin(parser, options) as admin:
        error = admin.describe_topics([options.topic]).error_of(options.topic)
        if error is None:
            return
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise error
        if not options.create:
            raise CommandError(
                f"{PROGRAM}: there is no topic {options.topic}; give --create to create it, or see "
                "barnabas topic list",
                Exit.NOT_FOUND,
            )
        admin.create_topics([NewTopic(options.topic)]).raise_first()


# Input ------------------------------------------------------------------------------------------------------


@contextmanager
def opened(files: Sequence[str]) -> Iterator[tuple[Iterator[BinaryIO], int | None]]:
    """The inputs, and their total size if it is known."""
    total = sum(os.path.getsize(name) for name in files) if files else None

    def streams() -> Iterator[BinaryIO]:
        for name in files:
            with open(name, "rb") as stream:  # noqa: PTH123
                yield stream
        if not files:
            if sys.stdin.isatty():
                tell("each line is a record; end with Ctrl+D")
            yield sys.stdin.buffer

    yield streams(), total


def lines_of(stream: BinaryIO) -> Iterator[bytes]:
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise CommandError(f"{PROGRAM}: a line has more than {MAX_LINE_BYTES} bytes")
        yield line


def records_of(
    lines: Iterable[bytes], options: Namespace, say: Callable[[str], None]
) -> Iterator[RecordToSend]:
    """The records of the lines."""
    kind = options.input
    for number, line in enumerate(lines, 1):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if kind == AUTO:
            kind = RECORDS if envelope.is_record_line(text) else LINES
            if kind == RECORDS:
                say("reading records of barnabas consume; use -i lines to send them as values")
        if kind == LINES:
            yield _of_line(text, options)
        elif text.strip():
            try:
                yield envelope.parse(text)
            except ValueError as error:
                raise CommandError(f"{PROGRAM}: line {number}: {error}") from error


def _of_line(text: bytes, options: Namespace) -> RecordToSend:
    key: bytes | None = None
    if options.key_separator is not None:
        key, separator, value = text.partition(options.key_separator.encode())
        if not separator:
            line = text[:80].decode(errors="backslashreplace")
            raise CommandError(f"{PROGRAM}: no {options.key_separator!r} in the line {line!r}")
        text = value
    return RecordToSend(None, None, None, key, text, ())


# Sending ----------------------------------------------------------------------------------------------------


class Deliveries:
    """Counts the records by partition, and the errors."""

    def __init__(self) -> None:
        self._by_partition: dict[tuple[str, int], list[int]] = {}
        self.errors: dict[str, KafkaError] = {}
        self.failed = 0

    def on_delivery(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        """Called on the client's thread, once per record."""
        if metadata is None:
            self.failed += 1
            if error is not None and len(self.errors) < MAX_ERRORS_SHOWN:
                self.errors.setdefault(error.code.name, error)
            return
        row = self._by_partition.setdefault(
            (metadata.topic, metadata.partition), [0, metadata.offset, metadata.offset]
        )
        row[0] += 1
        row[1] = min(row[1], metadata.offset)
        row[2] = max(row[2], metadata.offset)

    def rows(self) -> list[dict[str, object]]:
        return [
            {
                "topic": topic,
                "partition": partition,
                "records": count,
                "first_offset": first,
                "last_offset": last,
            }
            for (topic, partition), (count, first, last) in sorted(self._by_partition.items())
        ]


def _send(
    parser: FriendlyParser,
    options: Namespace,
    streams: Iterator[BinaryIO],
    total: int | None,
    deliveries: Deliveries,
) -> None:
    from barnabas.cli.friendly.progress import Progress
    from barnabas.client.sync import Producer

    settings = client_options(parser, options)
    if options.compression is not None:
        settings["compression.type"] = options.compression
    key = None if options.key is None else options.key.encode()
    is_typed = not options.file and sys.stdin.isatty()
    # A progress bar would overwrite what is being typed.
    progress = Progress("sending", total, unit="bytes", is_shown=not is_typed)
    with Producer(settings) as producer, progress:
        partitions = _Partitions(options, lambda topic: len(producer.partitions_for(topic)))

        def counted(stream: BinaryIO) -> Iterator[bytes]:
            for line in lines_of(stream):
                progress.add(len(line))
                yield line

        def say(text: str) -> None:
            progress.clear()
            tell(f"{PROGRAM}: {text}")

        for stream in streams:
            for record in records_of(counted(stream), options, say):
                topic = _topic(options, record)
                producer.send(
                    topic,
                    record.value,
                    key=record.key if key is None else key,
                    partition=partitions.choose(topic, record),
                    headers=record.headers + options.headers,
                    timestamp_ms=None if options.new_timestamps else record.timestamp_ms,
                    on_delivery=deliveries.on_delivery,
                )
                if is_typed:
                    producer.flush()
        producer.flush()


class _Partitions:
    """The partition of a record, if one was requested.

    Checked here because a producer waits, for each record, for a partition that may still be added.
    """

    def __init__(self, options: Namespace, count: Callable[[str], int]) -> None:
        self._options = options
        self._count = count
        self._counts: dict[str, int] = {}

    def choose(self, topic: str, record: RecordToSend) -> int | None:
        wanted: int | None = record.partition if self._options.keep_partitions else self._options.partition
        if wanted is None:
            return None
        if topic not in self._counts:
            self._counts[topic] = self._count(topic)
        if not 0 <= wanted < self._counts[topic]:
            raise CommandError(
                f"{PROGRAM}: {topic} has no partition {wanted}; it has {self._counts[topic]}, starting at 0",
                Exit.NOT_FOUND,
            )
        return wanted


def _topic(options: Namespace, record: RecordToSend) -> str:
    if options.topic != "-":
        return str(options.topic)
    if record.topic is None:
        raise CommandError(f"{PROGRAM}: a record has no topic; give one instead of -")
    return record.topic
