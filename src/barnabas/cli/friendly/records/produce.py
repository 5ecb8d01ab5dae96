"""`barnabas produce`: send lines, or records as `consume -o jsonl` prints them."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.numbers import whole_number
from barnabas.cli.friendly.framework import (
    FriendlyParser,
    add_cluster,
    add_output,
    client_options,
    open_admin,
    tell_errors,
)
from barnabas.cli.friendly.output import Column, Printer
from barnabas.cli.friendly.records import envelope
from barnabas.cli.friendly.records.envelope import Given

if TYPE_CHECKING:
    from barnabas.base.errors import KafkaError
    from barnabas.client import RecordMetadata

PROGRAM = "barnabas produce"
LINES, RECORDS, AUTO = "lines", "jsonl", "auto"
# No broker takes a record of such a size.
MAX_LINE_BYTES = 256 * 1024 * 1024
# Of the reasons why records were refused, so many are told.
MAX_TOLD = 10
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
        "Send each line of files, or of what is typed or piped in, as the value of a record.",
        "What `barnabas consume -o jsonl` prints is read back as the same records, keys and headers "
        "included.",
    )
    add = parser.add_argument
    add("topic", metavar="TOPIC", help="where to; - takes the topic that each record of a JSONL input names")
    add("file", nargs="*", default=[], metavar="FILE", help="what to send (default: stdin)")
    add(
        "-i",
        "--input",
        choices=(AUTO, LINES, RECORDS),
        default=AUTO,
        help="lines are values, or records as `consume -o jsonl` prints them (default: the first line tells)",
    )
    add("-k", "--key", metavar="KEY", help="the key of all records")
    add("-s", "--key-separator", metavar="TEXT", help="what stands before this in a line is its key")
    add(
        "-H",
        "--header",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of all records; may be repeated",
    )
    add("-p", "--partition", type=whole_number(0), metavar="N", help="which (default: by key)")
    add("--keep-partitions", action="store_true", help="of records: each into the partition it came from")
    add("--new-timestamps", action="store_true", help="of records: with the time of now, not their own")
    add("--compression", metavar="TYPE", help="none, gzip, snappy, lz4 or zstd (default none)")
    add("--create", action="store_true", help="create the topic if it is not there")
    add_output(parser)
    add_cluster(parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    options.headers = tuple(_header(parser, one) for one in options.header)
    if options.topic != "-":
        _check_topic(parser, options)
    sent = Sent()
    try:
        with opened(options.file) as (streams, total):
            _send(parser, options, streams, total, sent)
    finally:
        Printer(options.output, COLUMNS, name=lambda row: f"{row['topic']}-{row['partition']}").all(
            sent.rows()
        )
    if not sent.failed:
        return Exit.OK
    code = tell_errors(PROGRAM, sent.told)
    print(f"{PROGRAM}: {sent.failed} records were not written", file=sys.stderr)
    return code


def _header(parser: FriendlyParser, text: str) -> tuple[str, bytes]:
    key, equals, value = text.partition("=")
    if not equals:
        parser.error(f"--header {text}: write KEY=VALUE")
    return key, value.encode()


def _check_topic(parser: FriendlyParser, options: Namespace) -> None:
    """A slip of the keyboard shall not create a topic."""
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
                f"{PROGRAM}: there is no topic {options.topic}; --create makes it, barnabas topic list "
                "shows others",
                Exit.NOT_FOUND,
            )
        admin.create_topics([NewTopic(options.topic)]).raise_first()


# Input ------------------------------------------------------------------------------------------------------


@contextmanager
def opened(files: Sequence[str]) -> Iterator[tuple[Iterator[BinaryIO], int | None]]:
    """The inputs one after the other, and how many bytes they have if that is known."""
    total = sum(os.path.getsize(name) for name in files) if files else None

    def streams() -> Iterator[BinaryIO]:
        for name in files:
            with open(name, "rb") as stream:  # noqa: PTH123
                yield stream
        if not files:
            if sys.stdin.isatty():
                print("each line is a record; Ctrl+D ends", file=sys.stderr)
            yield sys.stdin.buffer

    yield streams(), total


def lines_of(stream: BinaryIO) -> Iterator[bytes]:
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise CommandError(f"{PROGRAM}: a line has more than {MAX_LINE_BYTES} bytes")
        yield line


def records_of(lines: Iterable[bytes], options: Namespace) -> Iterator[Given]:
    """What the lines mean."""
    kind = options.input
    for number, line in enumerate(lines, 1):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if kind == AUTO:
            kind = RECORDS if envelope.looks_like_one(text) else LINES
            if kind == RECORDS:
                print(
                    f"{PROGRAM}: these are records of barnabas consume; -i lines sends them as values",
                    file=sys.stderr,
                )
        if kind == LINES:
            yield _of_line(text, options)
        elif text.strip():
            try:
                yield envelope.parse(text)
            except ValueError as error:
                raise CommandError(f"{PROGRAM}: line {number}: {error}") from error


def _of_line(text: bytes, options: Namespace) -> Given:
    key: bytes | None = None
    if options.key_separator is not None:
        key, found, value = text.partition(options.key_separator.encode())
        if not found:
            line = text[:80].decode(errors="backslashreplace")
            raise CommandError(f"{PROGRAM}: no {options.key_separator!r} in the line {line!r}")
        text = value
    return Given(None, None, None, key, text, ())


# Sending ----------------------------------------------------------------------------------------------------


class Sent:
    """What became of the records."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, int], list[int]] = {}
        self.told: dict[str, KafkaError] = {}
        self.failed = 0

    def hear(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        """Called on the client's thread, for one record after the other."""
        if metadata is None:
            self.failed += 1
            if error is not None and len(self.told) < MAX_TOLD:
                self.told.setdefault(error.code.name, error)
            return
        place = self._places.setdefault(
            (metadata.topic, metadata.partition), [0, metadata.offset, metadata.offset]
        )
        place[0] += 1
        place[1] = min(place[1], metadata.offset)
        place[2] = max(place[2], metadata.offset)

    def rows(self) -> list[dict[str, object]]:
        return [
            {
                "topic": topic,
                "partition": partition,
                "records": count,
                "first_offset": first,
                "last_offset": last,
            }
            for (topic, partition), (count, first, last) in sorted(self._places.items())
        ]


def _send(
    parser: FriendlyParser, options: Namespace, streams: Iterator[BinaryIO], total: int | None, sent: Sent
) -> None:
    from barnabas.cli.friendly.progress import Progress
    from barnabas.client.sync import Producer

    settings = client_options(parser, options)
    if options.compression is not None:
        settings["compression.type"] = options.compression
    key = None if options.key is None else options.key.encode()
    is_typed = not options.file and sys.stdin.isatty()
    # A bar would run through what is being typed.
    progress = Progress("sending", total, unit="bytes", is_shown=not is_typed)
    with Producer(settings) as producer, progress:
        partitions = _Partitions(options, lambda topic: len(producer.partitions_for(topic)))

        def counted(stream: BinaryIO) -> Iterator[bytes]:
            for line in lines_of(stream):
                progress.add(len(line))
                yield line

        for stream in streams:
            for one in records_of(counted(stream), options):
                topic = _topic(options, one)
                producer.send(
                    topic,
                    one.value,
                    key=one.key if key is None else key,
                    partition=partitions.choose(topic, one),
                    headers=one.headers + options.headers,
                    timestamp_ms=None if options.new_timestamps else one.timestamp_ms,
                    on_delivery=sent.hear,
                )
                if is_typed:
                    producer.flush()
        producer.flush()


class _Partitions:
    """Which partition a record shall go to, where that was asked for.

    A producer would wait for a partition that is not there, as somebody may add it: for each record anew.
    """

    def __init__(self, options: Namespace, count: Callable[[str], int]) -> None:
        self._options = options
        self._count = count
        self._counts: dict[str, int] = {}

    def choose(self, topic: str, one: Given) -> int | None:
        wanted: int | None = one.partition if self._options.keep_partitions else self._options.partition
        if wanted is None:
            return None
        if topic not in self._counts:
            self._counts[topic] = self._count(topic)
        if not 0 <= wanted < self._counts[topic]:
            raise CommandError(
                f"{PROGRAM}: {topic} has no partition {wanted}; it has {self._counts[topic]}, from 0 on",
                Exit.NOT_FOUND,
            )
        return wanted


def _topic(options: Namespace, one: Given) -> str:
    if options.topic != "-":
        return str(options.topic)
    if one.topic is None:
        raise CommandError(f"{PROGRAM}: a record names no topic; give one in place of -")
    return one.topic
