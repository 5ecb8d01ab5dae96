"""Reads from a log: a slice of one segment for a fetch, an offset for a timestamp.

The caller gives the upper bound (isolation level); sending and delayed fetches belong in the broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from barnabas.batch.legacy import OldBatch
from barnabas.batch.records import NO_TIMESTAMP
from barnabas.batch.view import MAGIC_V2, BatchHeader, BatchView
from barnabas.runtime.disk.disk import Slice
from barnabas.storage.log.leader_epochs import LeaderEpochs
from barnabas.storage.segment.segment import Segment
from barnabas.storage.segment.segments import Segments
from barnabas.storage.segment.transaction_index import AbortedTransaction

# Special timestamps of ListOffsets.
LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5

# The number of recent end positions from which readers continue without an index lookup.
ENDS_KEPT = 16


class ReadResult(NamedTuple):
    """The result of a read: bytes of one segment, starting with the batch that contains the fetch offset.

    `slice` is None if there is nothing to read below the bound.  `aborted` is None unless it was requested.
    `cold` is a range that must be checked before it is returned and is not in the page cache.
    """

    fetch_offset: int
    segment_base_offset: int
    position: int
    slice: Slice | None = None
    first_batch_incomplete: bool = False
    aborted: tuple[AbortedTransaction, ...] | None = None
    cold: Slice | None = None

    @property
    def length(self) -> int:
        return 0 if self.slice is None else self.slice.length


@dataclass(frozen=True, slots=True)
class TimestampAndOffset:
    """A timestamp and its offset, as ListOffsets returns them."""

    timestamp: int
    offset: int
    leader_epoch: int | None


class LogReader:
    """Reads the segments of one log; caches the position of the last bound and where readers continue."""

    __slots__ = ("_bound", "_ends", "_segments")

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        # (offset, segment, position): every fetch looks up the high watermark's position until it moves.
        self._bound: tuple[int, Segment, int] | None = None
        # Former log ends that readers have reached: readers that keep up continue there.
        self._ends: dict[int, tuple[Segment, int]] = {}

    def forget(self) -> None:
        """Drop cached positions: the log was truncated or its segments were replaced."""
        self._bound = None
        self._ends.clear()

    def read(
        self,
        offset: int,
        max_bytes: int,
        end_offset: int,
        upper_bound: int,
        *,
        min_one_batch: bool,
        read_committed: bool,
        may_wait: bool = True,
    ) -> ReadResult:
        known = self._ends.get(offset)
        if known is not None and offset < upper_bound == end_offset and not read_committed:
            result = self._read_on(offset, known[0], known[1], max_bytes, end_offset)
            if result is not None:
                return result
        aborted: tuple[AbortedTransaction, ...] | None = () if read_committed else None
        segment = self._segments.floor(offset)
        if offset >= upper_bound:
            active = self._segments.last
            if offset == end_offset:
                self._remember_end(offset, active)
            return ReadResult(offset, active.base_offset, active.size, aborted=aborted)
        while segment is not None:
            self._segments.reading(segment)
            unread = None if may_wait else segment.search.cold_for(offset, max_bytes)
            if unread is not None:
                return ReadResult(offset, segment.base_offset, segment.size, cold=unread)
            header = segment.search.locate(offset)
            if header is not None:
                break
            # Compaction removed everything from this offset to the end of the segment.
            segment = self._segments.after(segment)
        else:
            active = self._segments.last
            return ReadResult(offset, active.base_offset, active.size, aborted=aborted)
        limit = max(max_bytes, header.size) if min_one_batch else max_bytes
        length = min(self._end_position(segment, upper_bound, end_offset) - header.position, limit)
        if length <= 0:
            return ReadResult(offset, segment.base_offset, header.position, aborted=aborted)
        if header.position < segment.records.valid_from:
            unseen = None if may_wait else segment.records.slice(header.position, length)
            if unseen is not None and not unseen.is_resident():
                return ReadResult(offset, segment.base_offset, header.position, cold=unseen)
            length = self._check(segment, header.position, length, end_offset)
        if read_committed:
            aborted = tuple(self._aborted_in(segment, offset, header.position + length, end_offset))
        return ReadResult(
            offset,
            segment.base_offset,
            header.position,
            segment.records.slice(header.position, length),
            first_batch_incomplete=limit < header.size,
            aborted=aborted,
        )

    def _read_on(
        self, offset: int, segment: Segment, position: int, max_bytes: int, end_offset: int
    ) -> ReadResult | None:
        """Everything appended since a reader reached this position; None if an index lookup is needed."""
        records = segment.records
        length = records.size - position
        if segment is not self._segments.last or not 0 < length <= max_bytes or position < records.valid_from:
            return None
        self._remember_end(end_offset, segment)
        return ReadResult(offset, segment.base_offset, position, records.slice(position, length))

    def _remember_end(self, end_offset: int, active: Segment) -> None:
        ends = self._ends
        if end_offset not in ends:
            if len(ends) >= ENDS_KEPT:
                del ends[next(iter(ends))]
            ends[end_offset] = active, active.records.size

    def _check(self, segment: Segment, position: int, length: int, end_offset: int) -> int:
        """The length of the valid part: batches not written by this process are checked on first read."""
        limit = _limit(self._segments, segment, end_offset)
        return segment.check(position, position + length, limit) - position

    def _end_position(self, segment: Segment, upper_bound: int, end_offset: int) -> int:
        """The end position of the batches below the bound in this segment."""
        if upper_bound >= _limit(self._segments, segment, end_offset):
            return segment.size
        bound = self._bound
        if bound is not None and bound[0] == upper_bound and bound[1] is segment:
            return bound[2]
        header = segment.search.locate(upper_bound)
        position = segment.size if header is None else header.position
        self._bound = (upper_bound, segment, position)
        return position

    def _aborted_in(
        self, segment: Segment, offset: int, end_position: int, end_offset: int
    ) -> list[AbortedTransaction]:
        """The aborted transactions in these bytes; the offset index gives an upper bound of their end."""
        upper_bound = segment.search.offset_at(end_position)
        if upper_bound is None:
            upper_bound = _limit(self._segments, segment, end_offset)
        return self.aborted_between(segment, offset, upper_bound)

    def aborted_between(self, first: Segment, offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """From this segment on: a transaction is in the index of the segment that contains its marker."""
        found: list[AbortedTransaction] = []
        segment: Segment | None = first
        while segment is not None:
            here, complete = segment.transaction_index.collect(offset, upper_bound)
            found += here
            if complete:
                break
            segment = self._segments.after(segment)
        return found

    # By timestamp

    def offset_for_time(
        self, timestamp: int, log_start_offset: int, end_offset: int, epochs: LeaderEpochs
    ) -> TimestampAndOffset | None:
        """The first offset at or after a timestamp, or for a special timestamp; None if there is none."""
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            first = epochs.entries[0] if epochs.entries else None
            known = first is not None and first.start_offset <= log_start_offset
            return TimestampAndOffset(-1, log_start_offset, first.epoch if first and known else None)
        if timestamp == LATEST_TIMESTAMP:
            return TimestampAndOffset(-1, end_offset, epochs.latest_epoch)
        if timestamp == LATEST_TIERED_TIMESTAMP:
            return TimestampAndOffset(-1, -1, -1)
        if timestamp == MAX_TIMESTAMP:
            return self.of_max_timestamp(end_offset)
        return self.first_at_or_after(timestamp, log_start_offset, end_offset)

    def first_at_or_after(
        self, timestamp: int, log_start_offset: int, end_offset: int
    ) -> TimestampAndOffset | None:
        """The first record, by offset, with this timestamp or a later one."""
        for segment in list(self._segments):
            if segment.largest_timestamp < timestamp:
                continue
            self._segments.reading(segment)
            for header in segment.headers(segment.search.find_time(timestamp)):
                if header.max_timestamp < timestamp or header.last_offset < log_start_offset:
                    continue
                for record in self._batch(segment, header, end_offset).records():
                    if record.timestamp >= timestamp and record.offset >= log_start_offset:
                        return TimestampAndOffset(record.timestamp, record.offset, _epoch(header))
        return None

    def of_max_timestamp(self, end_offset: int) -> TimestampAndOffset | None:
        """The first record with the largest timestamp (KIP-734)."""
        segment = max(self._segments, key=lambda segment: segment.max_timestamp)
        timestamp, offset = segment.max_timestamp_offset
        if timestamp == NO_TIMESTAMP:
            return None
        self._segments.reading(segment)
        for header in segment.headers(segment.search.position_before(offset)):
            if header.max_timestamp == timestamp:
                # None if compaction removed all of its records, as in Apache Kafka.
                records = self._batch(segment, header, end_offset).records()
                newest = (record for record in records if record.timestamp == timestamp)
                return next((TimestampAndOffset(timestamp, r.offset, _epoch(header)) for r in newest), None)
        return None

    def _batch(self, segment: Segment, header: BatchHeader, end_offset: int) -> BatchView | OldBatch:
        segment.check(header.position, header.end, _limit(self._segments, segment, end_offset))
        data = segment.read_at(header.position, header.size)
        return BatchView(data) if header.magic == MAGIC_V2 else OldBatch(data)


def _limit(segments: Segments, segment: Segment, end_offset: int) -> int:
    """The exclusive upper bound of the segment's offsets."""
    following = segments.after(segment)
    return end_offset if following is None else following.base_offset


def _epoch(header: BatchHeader) -> int | None:
    return header.leader_epoch if header.leader_epoch >= 0 else None
