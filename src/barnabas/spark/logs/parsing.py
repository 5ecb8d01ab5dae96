"""Lines of a topic into records, over Arrow batches: the rules of `barnabas.logs`.

The lines of one source (a file, a sender) are read together and in order, so that its format is found once
and stack traces are put together.  A row is written for each record: JSON as `barnabas logs parse` prints it,
without the template, and the shape that its template is made from.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from json.encoder import encode_basestring as quoted
from typing import TYPE_CHECKING, Any

from barnabas.logs.output import fields_json, record_json
from barnabas.logs.reader import Reader, is_continuation
from barnabas.logs.records import UNKNOWN, Record
from barnabas.logs.templates import Shapes, shape_key
from barnabas.spark.logs.config import Config

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 50_000  # Lines that are read together: a stack trace is cut only between two such groups.
CONTINUED = "continued"  # The rest of a stack trace whose beginning was read before.
NO_FORMAT = "no known format"
MOST_SOURCES = 1_000  # Readers that a process keeps.
ORIGIN = "origin"
OUTPUT = (
    "service string, source string, json string, shape string, problem string, value binary, "
    "position string, at_ms long"
)
TRACE_IDS = (
    "trace_id", "trace.id", "traceId", "traceID", "TraceId", "otelTraceID", "dd.trace_id", "x_request_id",
    "request_id",
)  # fmt: skip
DURATIONS = (
    "duration_ms", "duration", "elapsed", "latency", "responseTime", "took", "request_time", "dur",
    "query_time",
)  # fmt: skip
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|µs|us|ms|s|m)?")
_UNIT_MS = {"ns": 1e-6, "µs": 1e-3, "us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}
_IN_SECONDS = {"request_time", "query_time"}  # nginx's; MySQL's.

Row = tuple[str, str, str, str, str | None, bytes | None, str, int | None]


class Parser:
    """Reads lines of many sources; kept by a process from batch to batch."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._known = config.known()
        self._shapes = Shapes()
        self._readers: OrderedDict[str, Reader] = OrderedDict()

    def rows(
        self, source: str, lines: Sequence[bytes], places: Sequence[str], arrivals_ms: Sequence[int]
    ) -> Iterator[tuple[int, Row]]:
        """The records of lines of a source, with the number of the first line of each."""
        texts = [line.decode("utf-8-sig", "replace").rstrip("\r\n") for line in lines]
        numbers = [number for number, text in enumerate(texts) if text and not text.isspace()]
        reader = self._reader(source, arrivals_ms[numbers[0]] if numbers else 0)
        at = 0
        for record in reader.records(texts[number] for number in numbers):
            first = numbers[at]
            at += record.lines
            yield first, self._row(record, source, lines[first], places[first], arrivals_ms[first])

    def _reader(self, source: str, arrival_ms: int) -> Reader:
        reader = self._readers.pop(source, None)
        if reader is None:
            reader = Reader(
                datetime.fromtimestamp(arrival_ms / 1000, UTC), self._known, self._known.format_of(source)
            )
        self._readers[source] = reader
        if len(self._readers) > MOST_SOURCES:
            self._readers.popitem(last=False)
        return reader

    def _row(self, record: Record, source: str, line: bytes, place: str, arrival_ms: int) -> Row:
        service = self._config.service_of(record, source)
        if record.format == UNKNOWN:
            if not is_continuation(record.message):
                return service, source, "", "", NO_FORMAT, line, place, None
            record.format = CONTINUED
        time_ms = at_ms(record.time, arrival_ms)
        text = _json(record, service, source, place, time_ms)
        shape = shape_key(self._shapes.of(record.message))
        return service, source, text, shape, None, None, place, time_ms


def _json(record: Record, service: str, source: str, place: str, time_ms: int) -> str:
    fields, component = record.fields, record.service
    record.service = service
    status = status_of(fields.get("status"))
    duration_ms = duration_of(fields)
    trace = next((str(fields[name]) for name in TRACE_IDS if fields.get(name)), None)
    return (
        f'{{{record_json(record)}, "at_ms": {time_ms}, '
        f'"component": {"null" if component is None else quoted(component)}, "lines": {record.lines}, '
        f'"status": {"null" if status is None else status}, '
        f'"duration_ms": {"null" if duration_ms is None else duration_ms}, '
        f'"trace_id": {"null" if trace is None else quoted(trace)}, '
        f'"source": {quoted(source)}, "position": {quoted(place)}, '
        f'"fields": {fields_json(fields)}, "format": {quoted(record.format)}}}'
    )


def at_ms(time: str | None, arrival_ms: int) -> int:
    """Milliseconds since 1970: a time without an offset is UTC, and none is that of arrival."""
    if time is None:
        return arrival_ms
    try:
        at = datetime.fromisoformat(time)
    except ValueError:
        return arrival_ms
    return round((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000)


def status_of(value: object) -> int | None:
    """A status of HTTP."""
    try:
        status = int(str(value))
    except ValueError:
        return None
    return status if 100 <= status < 600 else None


def duration_of(fields: dict[str, object]) -> float | None:
    for name in DURATIONS:
        found = _DURATION.fullmatch(str(fields.get(name, "")))
        if found is not None:
            unit = found[2] or ("s" if name in _IN_SECONDS else "ms")
            return round(float(found[1]) * _UNIT_MS[unit], 6)
    return None


# Arrow ------------------------------------------------------------------------------------------------------

_parsers: dict[Config, Parser] = {}  # Of this process: Spark keeps its workers from batch to batch.


def parse_batches(batches: Iterator[pa.RecordBatch], config: Config) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: value, topic, partition, offset, timestamp and headers to the columns of OUTPUT."""
    parser = _parsers.get(config)
    if parser is None:
        _parsers.clear()
        parser = _parsers[config] = Parser(config)
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= ROWS:
            yield _parsed(waiting, parser)
            waiting = []
    if waiting:
        yield _parsed(waiting, parser)


def _parsed(batches: list[pa.RecordBatch], parser: Parser) -> pa.RecordBatch:
    import pyarrow as pa

    lines: dict[str, tuple[list[int], list[bytes], list[str], list[int]]] = {}
    number = 0
    for batch in batches:
        for source, line, place, arrival_ms in _lines(batch):
            numbers, texts, places, arrivals = lines.setdefault(source, ([], [], [], []))
            numbers.append(number)
            texts.append(line)
            places.append(place)
            arrivals.append(arrival_ms)
            number += 1
    rows: list[tuple[int, Row]] = []
    for source, (numbers, texts, places, arrivals) in lines.items():
        rows += [(numbers[first], row) for first, row in parser.rows(source, texts, places, arrivals)]
    rows.sort(key=lambda row: row[0])
    types = {"binary": pa.binary, "string": pa.string, "long": pa.int64}
    columns = list(zip(*(row for _, row in rows), strict=True)) or [()] * len(_ARROW)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, types[kind]()) for column, (_, kind) in zip(columns, _ARROW, strict=True)],
        [name for name, _ in _ARROW],
    )


_ARROW = [(name, kind) for name, kind in (column.split() for column in OUTPUT.split(", "))]


def _lines(batch: pa.RecordBatch) -> Iterator[tuple[str, bytes, str, int]]:
    columns = {name: batch.column(name) for name in batch.schema.names}
    topics, partitions = columns["topic"].to_pylist(), columns["partition"].to_pylist()
    offsets, values = columns["offset"].to_pylist(), columns["value"].to_pylist()
    arrivals = columns["timestamp"].cast("int64").to_pylist()
    headers: list[Any] = columns["headers"].to_pylist() if "headers" in columns else [None] * batch.num_rows
    for topic, partition, offset, value, arrival_us, pairs in zip(
        topics, partitions, offsets, values, arrivals, headers, strict=True
    ):
        yield (
            _source(pairs) or f"{topic}-{partition}",
            value or b"",
            f"{topic}-{partition}-{offset}",
            arrival_us // 1000,
        )


def _source(pairs: list[dict[str, Any]] | None) -> str | None:
    for pair in pairs or ():
        if pair["key"] == ORIGIN and pair["value"]:
            return bytes(pair["value"]).decode(errors="replace")
    return None
