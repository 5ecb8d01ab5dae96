"""Streams: `spark.readStream.format("barnabas")`, in one process for the life of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.clock import SystemClock
from barnabas.spark.source.loss import LossReport
from barnabas.spark.source.offset_reader import OffsetReader
from barnabas.spark.source.offsets import (
    OffsetJson,
    PartitionOffsets,
    created_again,
    from_checkpoint,
    to_json,
)
from barnabas.spark.source.options import SourceOptions
from barnabas.spark.source.planning import resolve, stream_ranges
from barnabas.spark.source.ranges import cut, packed, share_limit
from barnabas.spark.source.task import RangePartition, read_ranges
from barnabas.spark.topic_ids import IDS


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Continues from the checkpoint."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        self._schema = schema
        self._options = options
        self._report = LossReport(options.fail_on_data_loss)
        self._reader: OffsetReader | None = None
        self._latest: PartitionOffsets | None = None
        # The start of a query without a checkpoint, if it depends on the time of the request.
        self._moving_start: OffsetJson | None = None
        self._is_start_reported = False
        self._initial: OffsetJson | None = None
        self._committed: PartitionOffsets | None = None
        self._is_available_now = False
        self._target: PartitionOffsets | None = None
        self._last_trigger_ms = 0

    # ------------------------------------------------------------------------------------------------ offsets

    def initialOffset(self) -> OffsetJson:  # noqa: N802 - Spark's name
        reader = self._offsets_reader()
        place = resolve(self._options.starting, reader, reader.partitions(), is_start=True)
        offsets = to_json(place.offsets, reader.topic_ids)
        self._initial = offsets
        self._moving_start = offsets if place.at_latest else None
        return offsets

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._is_available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> OffsetJson:  # noqa: N802 - Spark's name
        begin = from_checkpoint(start)
        if start != self._initial:
            # The offset after a batch is requested when the batch is done; after the last batch of a query
            # that ends by itself, this is the only notification.
            self._commit_progress(begin)
        self._latest = self._ends(begin)
        begin = self._without_created_again(begin, start)
        if start == self._moving_start and not self._is_start_reported:
            # Spark keeps no start in its checkpoint, only the end of each batch.  So that a restart knows
            # where "latest" was, the first batch is empty and ends there.
            self._is_start_reported = True
            return self._moving_start
        self._is_start_reported = True
        if isinstance(limit, ReadAllAvailable):
            return self._json(self._latest)
        if self._is_too_early(begin, self._latest):
            return start
        if isinstance(limit, ReadMaxRows):
            new = self._latest.keys() - begin.keys()
            known = {**begin, **self._offsets_reader().earliest(new)}
            return self._json(share_limit(limit.max_rows, known, self._latest))
        return self._json(self._latest)

    def _json(self, offsets: PartitionOffsets) -> OffsetJson:
        return to_json(offsets, self._offsets_reader().topic_ids)

    def _without_created_again(self, begin: PartitionOffsets, start: dict[str, Any]) -> PartitionOffsets:
        """A topic that was deleted and created again is read from its beginning."""
        again = created_again(start, {IDS: self._offsets_reader().topic_ids})
        return {partition: offset for partition, offset in begin.items() if partition.topic not in again}

    def reportLatestOffset(self) -> OffsetJson | None:  # noqa: N802 - Spark's name
        return to_json(self._latest) if self._latest else None

    def _ends(self, begin: PartitionOffsets) -> PartitionOffsets:
        if self._target is not None:
            return self._target
        reader = self._offsets_reader()
        ends = reader.latest(reader.partitions(), begin)
        if self._is_available_now:
            self._target = ends
        return ends

    def _is_too_early(self, begin: PartitionOffsets, end: PartitionOffsets) -> bool:
        """Whether minOffsetsPerTrigger requires waiting, but not longer than maxTriggerDelay."""
        least = self._options.min_offsets_per_trigger
        if least is None or self._is_available_now:
            return False
        now_ms = SystemClock().monotonic_ns() // NS_PER_MS
        is_overdue = not self._last_trigger_ms or (
            now_ms - self._last_trigger_ms >= self._options.max_trigger_delay_ms
        )
        waiting = sum(offset - begin.get(partition, 0) for partition, offset in end.items())
        if not is_overdue and waiting < least:
            return True
        self._last_trigger_ms = now_ms
        return False

    # ------------------------------------------------------------------------------------------------ records

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, until = from_checkpoint(start), from_checkpoint(end)
        if start == self._moving_start and not self._is_start_reported:
            # The empty first batch is repeated after a restart, and "latest" has moved meanwhile.
            return []
        again = created_again(start, end)
        for topic in sorted(again):
            offsets = start.get(topic, {})
            self._report.lost(
                f"the topic {topic} was deleted and created again after it was read to {offsets}"
            )
        begin = {partition: offset for partition, offset in begin.items() if partition.topic not in again}
        ranges = stream_ranges(begin, until, self._offsets_reader(), self._report)
        wanted = cut(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return [RangePartition(ranges) for ranges in packed(wanted, self._options.most_tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_ranges(self._schema, self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._commit_progress(from_checkpoint(end))

    def _commit_progress(self, offsets: PartitionOffsets) -> None:
        """Commit to the group, once per batch."""
        if self._options.group_id is not None and offsets != self._committed:
            self._offsets_reader().commit(offsets)
            self._committed = offsets

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _offsets_reader(self) -> OffsetReader:
        if self._reader is None:
            self._reader = OffsetReader(self._options)
        return self._reader

    def __getstate__(self) -> dict[str, Any]:
        """Tasks receive the reader by pickle, and need none of its connections."""
        return {**self.__dict__, "_reader": None}
