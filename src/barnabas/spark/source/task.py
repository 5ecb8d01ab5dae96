"""What runs in a task: one range of offsets, as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from barnabas.batch.faults import CorruptBatch
from barnabas.spark.source.fetching import chunks
from barnabas.spark.source.loss import LossReport
from barnabas.spark.source.options import SourceOptions
from barnabas.spark.source.ranges import OffsetRange
from barnabas.spark.worker_process import settle


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, wanted: OffsetRange, not_before_ms: int | None = None) -> None:
        super().__init__((str(wanted.where), wanted.start, wanted.end))
        self.wanted = wanted
        self.not_before_ms = not_before_ms


def read_range(schema: StructType, options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
    """The rows of a task."""
    # Spark makes up an empty partition where there is nothing to read.
    if isinstance(partition, RangePartition):
        from barnabas.spark.source.rows import Rows

        settle()
        wanted = partition.wanted
        rows = Rows(schema, wanted.where)
        report = LossReport(options.fail_on_data_loss)
        try:
            for chunk in chunks(options.client, wanted, options.poll_timeout_ms, report):
                yield from rows.of(chunk, wanted.start, wanted.end, partition.not_before_ms)
        except CorruptBatch as error:
            raise CorruptBatch(
                f"{wanted.where} cannot be decoded: {error.message}; to go on, start after it by "
                "startingOffsets",
                error.code,
            ) from error
