"""The indexes of a segment: offset -> position, timestamp -> offset, and aborted transactions.

Contains when an entry is due, and how the two sparse indexes are loaded, grown, trimmed and rebuilt from the
batches.  File formats belong in index.py and transaction_index.py, lookups in segment_search.py.

Indexes are loaded on first use.  A damaged index is rebuilt at most once, and only if the batch headers are
intact from the first to the last.
"""

from __future__ import annotations

import logging

from barnabas.batch.view import BatchHeader, CorruptBatch
from barnabas.storage.log import log_files
from barnabas.storage.segment.file_records import FileRecords
from barnabas.storage.segment.index import (
    NO_TIMESTAMP,
    RELATIVE_OFFSET_LIMIT,
    OffsetIndex,
    SparseIndex,
    TimeIndex,
    TimestampOffset,
)
from barnabas.storage.segment.segment_files import SegmentFiles
from barnabas.storage.segment.transaction_index import AbortedTransaction, TransactionIndex

logger = logging.getLogger(__name__)

BATCHES_ARE_DAMAGED = "and batches are damaged, so it is kept unchanged"


class SegmentIndexes:
    """`largest` is the largest timestamp so far and the last offset of its batch; None if not read yet."""

    __slots__ = (
        "_files",
        "_records",
        "bytes_since_entry",
        "interval_bytes",
        "is_grown",
        "is_rebuilt",
        "largest",
        "offset_index",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self, files: SegmentFiles, records: FileRecords, max_index_bytes: int, interval_bytes: int
    ) -> None:
        disk, base_offset = files.disk, files.base_offset
        path = files.path
        self.offset_index = OffsetIndex(disk, path(log_files.OFFSET_INDEX), base_offset, max_index_bytes)
        self.time_index = TimeIndex(disk, path(log_files.TIME_INDEX), base_offset, max_index_bytes)
        self.transaction_index = TransactionIndex(disk, path(log_files.TRANSACTION_INDEX), base_offset)
        # Whether they have room for more entries: those of an idle log stay trimmed after a restart.
        self.is_grown = False
        # Whether they were rebuilt: None if that was not needed, False if it was not possible.
        self.is_rebuilt: bool | None = None
        self.largest: TimestampOffset | None = None
        self.interval_bytes = interval_bytes
        self.bytes_since_entry = 0
        self._files = files
        self._records = records

    def create(self) -> None:
        """Create empty indexes; no files of these names exist."""
        self.offset_index.create()
        self.time_index.create()
        self.is_grown = True

    def offsets(self) -> OffsetIndex:
        """The index, loaded."""
        if not self.offset_index.is_loaded:
            self._load(self.offset_index)
        return self.offset_index

    def times(self) -> TimeIndex:
        """The index, loaded."""
        if not self.time_index.is_loaded:
            self._load(self.time_index)
        return self.time_index

    def _load(self, index: SparseIndex) -> None:
        index.load()
        if not index.is_sane:
            self.rebuild(f"{index.path} is out of order")

    # Entries

    def can_hold(self, last_offset: int) -> bool:
        """Whether the relative offset fits the four bytes of an index entry."""
        return last_offset - self._files.base_offset <= RELATIVE_OFFSET_LIMIT

    @property
    def is_full(self) -> bool:
        """Whether one of them is full: then the next append rolls, whether or not an entry is due."""
        offsets, times = self.offset_index, self.time_index
        return offsets.entries >= offsets.capacity or times.entries >= times.capacity

    def make_room(self) -> None:
        """Called before an append: writes long tails, so that the append itself cannot fail half-way."""
        self.offset_index.make_room()
        self.time_index.make_room()

    def index_batch(self, header: BatchHeader, position: int) -> None:
        """Called when a batch was appended at this position: adds the entries that are due."""
        largest = self.largest
        assert largest is not None, "an append reads the largest timestamp first"
        if header.max_timestamp > largest.timestamp:
            self.largest = TimestampOffset(header.max_timestamp, header.last_offset)
        if self.bytes_since_entry > self.interval_bytes:
            self.add_entries(header.last_offset, position)
        self.bytes_since_entry += header.size

    def add_entries(self, last_offset: int, position: int) -> bool:
        """Add an entry to each index, unless one append has more batches than an index has room for.

        Returns whether there is room for more.
        """
        assert self.largest is not None, "an append reads the largest timestamp first"
        offsets = self.offset_index
        is_ahead = offsets.entries > 0 and last_offset <= offsets.last_offset
        if is_ahead and not self.rebuild(f"{offsets.path} is ahead of the batches"):
            return True
        if self.is_full:
            return False
        offsets.append(last_offset, position)
        self._add_time(self.time_index, self.largest)
        self.bytes_since_entry = 0
        return not self.is_full

    def close_times(self, largest: TimestampOffset) -> None:
        """Add the last entry of the time index, for which a slot is reserved."""
        self._add_time(self.times(), largest, closing=True)

    def _add_time(self, times: TimeIndex, largest: TimestampOffset, *, closing: bool = False) -> None:
        timestamp, offset = largest
        last_timestamp, last_offset = times.last
        goes_back = offset < last_offset or timestamp < last_timestamp
        if not goes_back or self.is_rebuilt is not False:  # else it is wrong and cannot be rebuilt
            times.maybe_append(timestamp, offset, closing=closing)

    def add_aborted(
        self, producer_id: int, first_offset: int, last_offset: int, last_stable_offset: int
    ) -> None:
        """Add an entry to the transaction index."""
        self.transaction_index.append(
            AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset)
        )

    # Rebuilding

    def rebuild(self, reason: str) -> bool:
        """Rebuild from the headers, at most once, and only if they are intact from first to last."""
        if self.is_rebuilt is not None:
            return self.is_rebuilt
        self.is_rebuilt = self._are_headers_in_order()
        if not self.is_rebuilt:
            logger.warning("%s: %s, %s", self._records.path, reason, BATCHES_ARE_DAMAGED)
            return False
        logger.warning("%s: %s; the indexes are rebuilt", self._records.path, reason)
        was_grown = self.is_grown
        self.reset()
        for header in self._records.headers():
            self.make_room()
            self.index_batch(header, header.position)
        self.bytes_since_entry = 0
        if not was_grown:
            assert self.largest is not None, "the walk has found it"
            self.close(self.largest)
        return True

    def _are_headers_in_order(self) -> bool:
        last_offset = self._files.base_offset - 1
        try:
            for header in self._records.headers():
                if not last_offset < header.base_offset or not self.can_hold(header.last_offset):
                    return False
                last_offset = header.last_offset
        except CorruptBatch:
            return False
        return True

    def reset(self) -> None:
        """Remove all entries of both sparse indexes, to rebuild them with `index_batch`."""
        for index in (self.offset_index, self.time_index):
            if not index.is_loaded:
                index.load()
            index.reset()
        self.largest = TimestampOffset(NO_TIMESTAMP, self._files.base_offset)
        self.bytes_since_entry = 0

    def close(self, largest: TimestampOffset) -> None:
        """Complete a rebuild after `reset`: add the last time index entry and trim both indexes."""
        self.close_times(largest)
        self.trim()
        self.bytes_since_entry = 0

    # Files

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of this offset and later ones."""
        self.offsets().truncate_to(offset)
        self.times().truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self.bytes_since_entry = 0

    def grow(self) -> None:
        """Make room for more entries: the segment is active (again)."""
        self.offsets().resize(self.offset_index.max_bytes)
        self.times().resize(self.time_index.max_bytes)
        self.is_grown = True

    def trim(self) -> None:
        self.offsets().trim()
        self.times().trim()
        self.is_grown = False

    def trim_loaded(self, *, sync: bool) -> None:
        """Sync open indexes before a clean shutdown: a power loss must not bring truncated entries back."""
        for index in (self.offset_index, self.time_index):
            if index.is_loaded:
                index.trim()
                if sync:
                    index.sync()
        self.is_grown = False

    def sync(self) -> None:
        self.offsets().sync()
        self.times().sync()
        self.transaction_index.sync()

    def write_out(self) -> None:
        """Write buffered entries to their files."""
        for index in (self.offset_index, self.time_index):
            if index.is_loaded:
                index.write_out()

    def follow_files(self) -> None:
        """Called when the files were renamed."""
        path = self._files.path
        self.offset_index.moved_to(path(log_files.OFFSET_INDEX))
        self.time_index.moved_to(path(log_files.TIME_INDEX))
        self.transaction_index.moved_to(path(log_files.TRANSACTION_INDEX))

    def release(self) -> None:
        self.offset_index.release()
        self.time_index.release()
        self.transaction_index.release()
