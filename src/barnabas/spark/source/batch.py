"""Batch reads: `spark.read.format("barnabas")`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from barnabas.spark.source.filters import Pushed
from barnabas.spark.source.offset_reader import OffsetReader
from barnabas.spark.source.options import SourceOptions
from barnabas.spark.source.planning import batch_ranges
from barnabas.spark.source.ranges import OffsetRange, cut, packed
from barnabas.spark.source.task import RangePartition, read_ranges


class BatchReader(DataSourceReader):
    """Reads what the topics contain when the query is planned."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return self._plan(Pushed())

    def _plan(self, pushed: Pushed) -> list[InputPartition]:
        options = self._options
        reader = OffsetReader(options)
        try:
            ranges = pushed.keep(batch_ranges(options, reader))
            if pushed.not_before_ms is not None:
                ranges = _from_time(ranges, pushed.not_before_ms, reader)
        finally:
            reader.close()
        wanted = cut(ranges, options.min_partitions, options.max_records_per_partition)
        return [RangePartition(ranges, pushed.not_before_ms) for ranges in packed(wanted, options.most_tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_ranges(self._schema, self._options, partition)


class FilteringBatchReader(BatchReader):
    """The same, with pushed-down filters."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        super().__init__(schema, options)
        self._pushed = Pushed()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        return self._pushed.take(filters)

    def partitions(self) -> Sequence[InputPartition]:
        return self._plan(self._pushed)


def _from_time(ranges: list[OffsetRange], time_ms: int, reader: OffsetReader) -> list[OffsetRange]:
    """Skip to the first record of a time: all records before it are older."""
    starts = reader.at_times(
        {offset_range.topic_partition: time_ms for offset_range in ranges if offset_range.size > 0}
    )
    kept = []
    for offset_range in ranges:
        start = starts.get(offset_range.topic_partition)
        if start is not None and start < offset_range.end:
            later = start > offset_range.start
            kept.append(
                OffsetRange(
                    offset_range.topic_partition,
                    max(start, offset_range.start),
                    offset_range.end,
                    offset_range.from_earliest and not later,
                )
            )
    return kept
