"""Looks up batches of a segment by offset or timestamp, with indexes and batches that may be damaged.

The log file belongs in file_records.py, rebuilding indexes in segment_indexes.py.

An index entry only says where to start a scan.  The batch it points to is checked, and an index with a wrong
entry is rebuilt from the batch headers, unless batches are damaged: then the index may be the one that is
right.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain

from barnabas.batch.view import BatchHeader, CorruptBatch
from barnabas.runtime.disk.disk import Slice
from barnabas.storage.segment.batch_headers import WINDOW_BYTES
from barnabas.storage.segment.file_records import FileRecords
from barnabas.storage.segment.index import NO_TIMESTAMP, OffsetPosition, TimestampOffset
from barnabas.storage.segment.segment_indexes import SegmentIndexes

# The number of entries tried before one that points to no batch; then the scan starts at the segment's start.
ENTRIES_TRIED = 8
# After a clean shutdown, at most this many last bytes of the batches after the last index entry are checked.
MAX_TAIL_BYTES = 8 << 20


class SegmentSearch:
    """Looks for the batches of one segment."""

    __slots__ = ("_indexes", "_records", "base_offset")

    def __init__(self, base_offset: int, records: FileRecords, indexes: SegmentIndexes) -> None:
        self.base_offset = base_offset
        self._records = records
        self._indexes = indexes

    def ends_whole(self) -> bool:
        """Whether the batches from the last index entry to the end of the file are valid."""
        records = self._records
        size = records.size
        if size == 0:
            return True
        try:
            tail = (
                header
                for header in self.heads_for(self._indexes.offsets().last_offset)
                if size - header.position <= MAX_TAIL_BYTES or header.end == size
            )
            first = next(tail, None)
            return first is not None and records.check(first.position, size) == size
        except CorruptBatch:
            return False

    # By offset

    def locate(self, offset: int) -> BatchHeader | None:
        """The batch that contains the offset, or the first one after it; None past the last."""
        for header in self.heads_for(offset):
            if header.last_offset >= offset:
                return header
        return None

    def cold_for(self, offset: int, max_bytes: int) -> Slice | None:
        """The range that a lookup of the offset must read from the device, if any."""
        position = self._indexes.offsets().lookup(offset).position
        if self._records.slice(position, WINDOW_BYTES).is_resident():
            return None
        return self._records.slice(position, max(max_bytes, WINDOW_BYTES))

    def position_before(self, offset: int) -> int:
        """The position from which to scan for the batch of an offset."""
        header = self.locate(offset)
        return 0 if header is None else header.position

    def next_offset(self) -> int:
        """The offset after the last stored one; base_offset if empty."""
        last = next(iter(self.last_headers(1)), None)
        return self.base_offset if last is None else last.last_offset + 1

    def last_headers(self, count: int) -> Sequence[BatchHeader]:
        """The headers of the last batches."""
        offset = self._indexes.offsets().last_offset
        # At least one batch follows the last index entry, and at least two the entry before it.
        return deque(self.heads_for(offset if count == 1 else offset - 1), maxlen=count)

    def offset_at(self, position: int) -> int | None:
        """An upper bound of the offsets before this position, if the index has one."""
        entry = self._indexes.offsets().first_at_position(position)
        return None if entry is None or self._confirmed(entry) is None else entry.offset

    def heads_for(self, offset: int) -> Iterator[BatchHeader]:
        """Headers from the batch at or before the offset's, by an index entry that the file confirms."""
        entry = self._indexes.offsets().lookup(offset)
        if entry.position == 0 or self._indexes.is_rebuilt:
            return self._records.headers(entry.position)
        following = self._confirmed(entry)
        if following is not None:
            return following
        if self._indexes.rebuild(f"{entry} of the offset index points to no batch"):
            return self._records.headers(self._indexes.offsets().lookup(offset).position)
        return self._headers_before(entry)

    def _confirmed(self, entry: OffsetPosition) -> Iterator[BatchHeader] | None:
        """Headers from the index entry's batch on; None if there is no such batch."""
        if not 0 <= entry.position < self._records.size:
            return None
        following = self._records.headers(entry.position)
        with contextlib.suppress(CorruptBatch):
            header = next(following, None)
            if header is not None and self.base_offset <= header.base_offset <= entry.offset:
                return chain((header,), following)
        return None

    def _headers_before(self, entry: OffsetPosition) -> Iterator[BatchHeader]:
        """Headers from the last earlier entry that the file confirms."""
        for _ in range(ENTRIES_TRIED):
            entry = self._indexes.offsets().lookup(entry.offset - 1)
            if entry.position == 0:
                break
            following = self._confirmed(entry)
            if following is not None:
                return following
        return self._records.headers()

    # By timestamp

    def find_time(self, timestamp: int) -> int:
        """A position at or before the first batch with this timestamp or a later one."""
        entry = self._indexes.times().lookup(timestamp)
        if entry.timestamp == NO_TIMESTAMP:
            return 0
        header = self.locate(entry.offset)
        if self._indexes.is_rebuilt or self._has_time(header, entry):
            return header.position if header is not None else 0
        if self._indexes.rebuild(f"{entry} of the time index has another batch's timestamp"):
            return self.find_time(timestamp)
        return 0

    def _has_time(self, header: BatchHeader | None, entry: TimestampOffset) -> bool:
        """Whether a batch confirms a time index entry.  Raises CorruptBatch if the batch is damaged."""
        if header is None:
            return False
        if header.max_timestamp != entry.timestamp:
            self._records.check_crc(header)
            return False
        return True

    def largest_indexed_time(self) -> TimestampOffset:
        """The last time index entry.  A later timestamp would hide records, an earlier one expire them.

        It must match its batch, and the last batches of the segment must not exceed it.
        """
        last = self._indexes.times().last
        if self._indexes.is_rebuilt:
            return last
        try:
            confirmed = last.timestamp == NO_TIMESTAMP or self._has_time(self.locate(last.offset), last)
            for header in self.heads_for(self._indexes.offsets().last_offset) if confirmed else ():
                if header.max_timestamp > last.timestamp:
                    self._records.check_crc(header)
                    confirmed = False
        except CorruptBatch:
            self._indexes.is_rebuilt = False
            return self._largest_time_from(0)
        if confirmed or self._indexes.rebuild(f"{last} cannot be the last entry of the time index"):
            return self._indexes.times().last
        return self._largest_time_from(0)

    def largest_time_left(self) -> TimestampOffset:
        """The largest timestamp after a truncation: of the last index entry or a batch after it."""
        largest = self._indexes.times().last
        for header in self.heads_for(largest.offset):
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
        return largest

    def _largest_time_from(self, position: int) -> TimestampOffset:
        """The largest timestamp of the last index entry and of the readable batches after it."""
        largest = self._indexes.times().last
        with contextlib.suppress(CorruptBatch):
            for header in self._records.headers(position):
                if header.max_timestamp > largest.timestamp:
                    largest = TimestampOffset(header.max_timestamp, header.last_offset)
        return largest
