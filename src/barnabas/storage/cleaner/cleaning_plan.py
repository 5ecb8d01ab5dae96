"""Plans cleanings: which log is next, its dirty range and ratio, and which segments are rewritten together.

Only computes with offsets, sizes and times; never reads batches or changes anything.

    log start      first dirty offset        first uncleanable offset      end
    |--- clean ----|--------- dirty ---------|----- active segment, open transactions, too young -----|
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LONG_MAX
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.segment.index import SparseIndex
from barnabas.storage.segment.segment import Segment

MAX_OFFSET_RANGE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class DirtyRange:
    """The offsets that may be cleaned, and whether the checkpointed offset must be corrected."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    correct_checkpoint: bool


@dataclass(frozen=True, slots=True)
class LogToClean:
    """A log with something to clean."""

    partition: TopicPartition
    log: Log
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def dirty_ratio(self) -> float:
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        """Whether it is dirty enough, or has records older than max.compaction.lag.ms (KIP-354)."""
        if self.overdue_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.dirty_ratio > self.log.options.min_cleanable_dirty_ratio


def dirtiest(candidates: Iterable[LogToClean]) -> LogToClean | None:
    """The log to clean next: of those that are due, the one with the highest dirty ratio."""
    return max((each for each in candidates if each.is_due), key=lambda each: each.dirty_ratio, default=None)


def segments_between(log: Log, start: int, end: int) -> list[Segment]:
    """Segments with offsets in [start, end), by their base offsets."""
    return log.segments.between(start, end) if start < end else []


def dirty_range(log: Log, last_clean_offset: int | None, now_ms: int) -> DirtyRange:
    """Where cleaning starts and where it must stop: before the active segment, before the last stable offset,
    and before the first segment with a record younger than min.compaction.lag.ms."""
    first_dirty = log.log_start_offset if last_clean_offset is None else last_clean_offset
    correct = not log.log_start_offset <= first_dirty <= log.end_offset
    if correct:
        # Records were deleted up to a later offset, or the log lost its end: the whole log is dirty.
        first_dirty = log.log_start_offset
    limit = min(log.last_stable_offset, log.active.base_offset)
    lag_ms = log.options.min_compaction_lag_ms
    if lag_ms > 0:
        young = (
            segment.base_offset
            for segment in segments_between(log, first_dirty, log.active.base_offset)
            if segment.largest_timestamp > now_ms - lag_ms
        )
        limit = min(limit, next(young, limit))
    return DirtyRange(first_dirty, max(first_dirty, limit), correct)


def overdue_ms(log: Log, first_dirty: int, now_ms: int) -> int:
    """How long the oldest dirty record has exceeded max.compaction.lag.ms; 0 if it has not."""
    dirty = segments_between(log, first_dirty, log.active.base_offset)
    times = (segment.first_batch_timestamp for segment in dirty)
    earliest = min((time for time in times if time > 0), default=LONG_MAX)
    return max(0, now_ms - max(log.options.max_compaction_lag_ms, 0) - earliest)


def plan(log: Log, dirty: DirtyRange, now_ms: int) -> LogToClean:
    """Whole segments only: cleaning stops at the start of the first uncleanable offset's segment."""
    stop = next(
        (
            segment.base_offset
            for segment in segments_between(log, dirty.first_uncleanable_offset, log.active.base_offset)
        ),
        log.active.base_offset,
    )
    start = min(dirty.first_dirty_offset, stop)
    return LogToClean(
        partition=TopicPartition(log.topic, log.partition),
        log=log,
        first_dirty_offset=dirty.first_dirty_offset,
        first_uncleanable_offset=stop,
        clean_bytes=sum(s.size for s in log.segments if s.base_offset < dirty.first_dirty_offset),
        cleanable_bytes=sum(s.size for s in segments_between(log, start, stop)),
        overdue_ms=overdue_ms(log, dirty.first_dirty_offset, now_ms),
    )


def group_segments(
    segments: Sequence[Segment], max_bytes: int, max_index_bytes: int, first_uncleanable_offset: int
) -> list[list[Segment]]:
    """Group adjacent segments whose current sizes fit one segment, so that segments do not become tiny."""
    groups: list[list[Segment]] = []
    total = offset_index = time_index = 0
    for index, segment in enumerate(segments):
        last = segments[index + 1].base_offset if index + 1 < len(segments) else first_uncleanable_offset
        offsets, times = _bytes_of(segment.indexes.offsets()), _bytes_of(segment.indexes.times())
        fits = (
            bool(groups)
            and total + segment.size <= max_bytes
            and offset_index + offsets <= max_index_bytes
            and time_index + times <= max_index_bytes
            # An empty segment adds no offset; without this exception one would stay for every 2^31 offsets.
            and (segment.size == 0 or last - 1 - groups[-1][0].base_offset <= MAX_OFFSET_RANGE)
        )
        if fits:
            groups[-1].append(segment)
            total, offset_index, time_index = total + segment.size, offset_index + offsets, time_index + times
        else:
            groups.append([segment])
            total, offset_index, time_index = segment.size, offsets, times
    return groups


def _bytes_of(index: SparseIndex) -> int:
    return index.entries * index.entry.size
