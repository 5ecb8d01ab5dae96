"""The code of a task: ranges of offsets, as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from barnabas.batch.faults import CorruptBatch
from barnabas.spark.source.fetching import completed_fetches
from barnabas.spark.source.loss import LossReport
from barnabas.spark.source.options import SourceOptions
from barnabas.spark.source.ranges import OffsetRange
from barnabas.spark.worker_process import settle


class RangePartition(InputPartition):
    """The input of one task: mostly one range."""

    def __init__(self, ranges: tuple[OffsetRange, ...], not_before_ms: int | None = None) -> None:
        super().__init__(tuple((str(each.topic_partition), each.start, each.end) for each in ranges))
        self.ranges = ranges
        self.not_before_ms = not_before_ms


def read_ranges(schema: StructType, options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
    """Yield the rows of a task."""
    # Spark creates an empty partition if there is nothing to read.
    if isinstance(partition, RangePartition):
        settle()
        for wanted in partition.ranges:
            yield from _read_range(schema, options, wanted, partition.not_before_ms)


def _read_range(
    schema: StructType, options: SourceOptions, wanted: OffsetRange, not_before_ms: int | None
) -> Iterator[Any]:
    from barnabas.spark.source.rows import Rows

    rows = Rows(schema, wanted.topic_partition)
    report = LossReport(options.fail_on_data_loss)
    try:
        for completed in completed_fetches(options.client, wanted, options.poll_timeout_ms, report):
            yield from rows.of(completed, wanted.start, wanted.end, not_before_ms)
    except CorruptBatch as error:
        raise CorruptBatch(
            f"{wanted.topic_partition} cannot be decoded: {error.message}; to continue, start after it by "
            "startingOffsets",
            error.code,
        ) from error
