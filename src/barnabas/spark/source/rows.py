"""Record batches as Arrow batches with the columns of Spark's own Kafka connector, without an object per
record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.columnar import Columns, columns_of
from barnabas.batch.legacy import OldBatch, up_converted
from barnabas.batch.view import BatchView
from barnabas.client.consumer.fetch.arrow import binary_array
from barnabas.client.consumer.fetch.completed_fetch import CompletedFetch
from barnabas.spark.given_options import OptionError
from barnabas.spark.internals import arrow_schema

if TYPE_CHECKING:
    from barnabas.client.model import TopicPartition

HEADERS = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)
SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
# Stored bytes per Arrow batch: large enough to be efficient, small enough for the CPU cache.
GROUP_BYTES = 2 << 20
# Spark has 64-bit microseconds.
MAX_TIMESTAMP_MS = (2**63 - 1) // 1000


def schema_with(headers: bool) -> StructType:
    return StructType([*SCHEMA.fields, HEADERS]) if headers else SCHEMA


def check_schema(schema: StructType) -> None:
    """A schema given by the user selects columns; it cannot change their types."""
    known = {field.name: field for field in (*SCHEMA.fields, HEADERS)}
    for field in schema.fields:
        found = known.get(field.name)
        if found is None:
            raise OptionError(
                f"schema(): there is no column {field.name}; choose from {', '.join(known)} and parse values "
                "by a select after load()"
            )
        if found.dataType != field.dataType:
            raise OptionError(
                f"schema(): the column {field.name} is {found.dataType.simpleString()}, "
                f"not {field.dataType.simpleString()}; cast it by a select after load()"
            )


class Rows:
    """Creates the wanted columns of one partition's records."""

    def __init__(self, schema: StructType, topic_partition: TopicPartition) -> None:
        self._schema = arrow_schema(schema)
        self._topic_partition = topic_partition
        makers: Mapping[str, Callable[[_Group], Any]] = {
            "key": _Group.keys,
            "value": _Group.values,
            "topic": _Group.topics,
            "partition": _Group.partitions,
            "offset": _Group.offsets,
            "timestamp": _Group.timestamps,
            "timestampType": _Group.timestamp_types,
            "headers": _Group.headers,
        }
        self._makers = [makers[field.name] for field in schema.fields]

    def of(
        self, completed: CompletedFetch, start: int, end: int, not_before_ms: int | None = None
    ) -> Iterator[Any]:
        """Yield the visible records of a completed fetch from offset `start` up to `end`.

        Batches that are entirely older than `not_before_ms` may be skipped.
        """
        # A batch is fetched whole, even if the range begins within it.
        start = max(start, completed.first_offset)
        for batches, columns in _decoded(_groups(completed, end, not_before_ms)):
            first, last = 0, len(columns)
            if batches[0].base_offset < start:
                first = bisect_left(columns.offsets, start)
            if batches[-1].last_offset >= end:
                last = bisect_left(columns.offsets, end)
            if first < last:
                group = _Group(self._schema, self._topic_partition, batches, columns, first, last - first)
                arrays = [make(group) for make in self._makers]
                yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _groups(completed: CompletedFetch, end: int, not_before_ms: int | None) -> Iterator[list[BatchView]]:
    group: list[BatchView] = []
    size = 0
    while (batch := completed.next_batch()) is not None:
        if isinstance(batch, OldBatch):
            batch = up_converted(batch)
        if batch.base_offset >= end:
            break
        if not_before_ms is not None and batch.max_timestamp < not_before_ms:
            continue
        if not batch.record_count:
            continue
        if size + batch.size > GROUP_BYTES and group:
            yield group
            group, size = [], 0
        group.append(batch)
        size += batch.size
    if group:
        yield group


def _decoded(groups: Iterator[list[BatchView]]) -> Iterator[tuple[list[BatchView], Columns]]:
    for batches in groups:
        try:
            yield batches, columns_of(batches)
            continue
        except KafkaError as error:
            if error.code != ErrorCode.MESSAGE_TOO_LARGE or len(batches) == 1:
                raise
        # Together they exceed the decompression limit; each of them need not.
        for batch in batches:
            yield [batch], columns_of([batch])


class _Group:
    """Rows from `first` on of some batches, column by column."""

    def __init__(
        self,
        schema: Any,
        topic_partition: TopicPartition,
        batches: list[BatchView],
        columns: Columns,
        first: int,
        count: int,
    ) -> None:
        self._schema = schema
        self._topic_partition = topic_partition
        self._batches = batches
        self._columns = columns
        self._first = first
        self._count = count

    def keys(self) -> Any:
        return self._binary(True)

    def values(self) -> Any:
        return self._binary(False)

    def _binary(self, of_keys: bool) -> Any:
        columns = self._columns
        return binary_array(columns.payload, columns.vectors, of_keys, self._first, self._count)

    def topics(self) -> Any:
        return pa.repeat(self._topic_partition.topic, self._count)

    def partitions(self) -> Any:
        return pa.repeat(pa.scalar(self._topic_partition.partition, pa.int32()), self._count)

    def offsets(self) -> Any:
        return pa.array(self._numbers(self._columns.offsets))

    def timestamps(self) -> Any:
        times = self._numbers(self._columns.timestamps)
        if int(times.max()) > MAX_TIMESTAMP_MS or int(times.min()) < -MAX_TIMESTAMP_MS:
            row = int(np.argmax(np.abs(times) > MAX_TIMESTAMP_MS))
            offset = int(self._columns.offsets[self._first + row])
            raise ValueError(
                f"the record at offset {offset} of {self._topic_partition} has the timestamp {times[row]} "
                "ms, which Spark "
                "cannot represent; leave the column timestamp out by schema(), or start after this offset"
            )
        return pa.Array.from_buffers(
            pa.timestamp("us", tz="UTC"), self._count, [None, pa.py_buffer(times * 1000)]
        )

    def timestamp_types(self) -> Any:
        kinds = {batch.timestamp_type for batch in self._batches}
        if len(kinds) == 1:
            return pa.repeat(pa.scalar(int(kinds.pop()), pa.int32()), self._count)
        each = [int(batch.timestamp_type) for batch in self._batches]
        counts = [batch.record_count for batch in self._batches]
        types = np.repeat(np.array(each, np.int32), counts)
        return pa.array(types[self._first : self._first + self._count])

    def headers(self) -> Any:
        """Null for a record without headers, as in Spark's own connector."""
        kind = self._schema.field("headers").type
        columns = self._columns
        starts = np.frombuffer(columns.header_starts, np.int32)[self._first : self._first + self._count]
        counts = np.frombuffer(columns.payload, np.uint8)[starts]
        if not counts.any():
            return pa.nulls(self._count, kind)
        rows: list[list[dict[str, Any]] | None] = [None] * self._count
        for row in np.flatnonzero(counts).tolist():
            rows[row] = [{"key": key, "value": value} for key, value in columns.headers(self._first + row)]
        return pa.array(rows, kind)

    def _numbers(self, view: memoryview) -> Any:
        return np.frombuffer(view, np.int64)[self._first : self._first + self._count]
