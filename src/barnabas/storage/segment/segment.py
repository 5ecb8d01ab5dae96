"""One segment of a log: its batches, the two sparse indexes and the transaction index.

Contains appending, when to roll, and truncating.  The log file belongs in file_records.py, index entries in
segment_indexes.py, lookups in segment_search.py, the list of segments in segments.py.

Files are opened on first use and closed by `release`: a segment that is not read costs about a kilobyte.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from barnabas.batch.view import BatchHeader, CorruptBatch, patch_offsets
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Buffer, Disk, File, Slice
from barnabas.storage.failure import failing
from barnabas.storage.log.log_options import LONG_MAX, LogOptions
from barnabas.storage.segment.batch_headers import header_at
from barnabas.storage.segment.file_records import FileRecords
from barnabas.storage.segment.index import NO_TIMESTAMP, RELATIVE_OFFSET_LIMIT, TimestampOffset
from barnabas.storage.segment.segment_files import SegmentFiles
from barnabas.storage.segment.segment_indexes import SegmentIndexes
from barnabas.storage.segment.segment_search import SegmentSearch
from barnabas.storage.segment.transaction_index import AbortedTransaction, TransactionIndex


class Limits(NamedTuple):
    """The size, time and offset up to which a segment takes batches without checking whether to roll."""

    size: int
    timestamp: int
    offset: int


class Segment:
    """The batches from one base offset on, with their indexes.

    `records` is the log file, `indexes` the indexes, `search` the lookups in both; `files` has the file
    names.
    """

    __slots__ = (
        "_clock",
        "_first_timestamp",
        "base_offset",
        "created_ms",
        "files",
        "indexes",
        "jitter_ms",
        "limits",
        "records",
        "search",
    )

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        folder: str,
        base_offset: int,
        options: LogOptions,
        *,
        size: int = 0,
        suffix: str = "",
        jitter_ms: int = 0,
    ) -> None:
        self.base_offset = base_offset
        self.files = SegmentFiles(disk, folder, base_offset, suffix)
        self.records = FileRecords(self.files, size)
        self.indexes = SegmentIndexes(
            self.files, self.records, options.segment_index_bytes, options.index_interval_bytes
        )
        self.search = SegmentSearch(base_offset, self.records, self.indexes)
        self.jitter_ms = jitter_ms
        self.created_ms = clock.wall_ms()
        self._clock = clock
        self._first_timestamp: int | None = None
        # None unless the next append is known not to roll.
        self.limits: Limits | None = None

    @classmethod
    def create(
        cls,
        disk: Disk,
        clock: Clock,
        folder: str,
        base_offset: int,
        options: LogOptions,
        *,
        suffix: str = "",
        jitter_ms: int = 0,
        is_in_new_folder: bool = False,
    ) -> Segment:
        """Create an empty segment; existing files of its names are removed first."""
        segment = cls(disk, clock, folder, base_offset, options, suffix=suffix, jitter_ms=jitter_ms)
        if not is_in_new_folder:
            segment.files.remove()
        try:
            segment.records.create(options.segment_bytes if options.preallocate else None)
            segment.indexes.create()
        except OSError as error:
            segment.undo_create(error)
            raise
        return segment

    def undo_create(self, error: OSError) -> None:
        """Remove the files of a segment that could not be created: the log may go on in the one before.

        Raises StorageFailure if that fails too.
        """
        with failing(self.files.folder, "removing a segment that could not be created"):
            try:
                self.delete()
            except OSError as second:
                raise second from error

    def __repr__(self) -> str:
        return f"Segment({self.base_offset}, {self.size} bytes)"

    # Appending

    def append(self, buffer: Buffer, last_offset: int) -> None:
        """Append complete batches that end with last_offset, in one write, and add due index entries."""
        found, start = [], 0
        while start < len(buffer):
            header = header_at(buffer, start, self.size + start)
            assert header is not None, "only whole batches are appended"
            assert start + header.size <= len(buffer), "only whole batches are appended"
            found.append(header)
            start += header.size
        assert not found or found[-1].last_offset == last_offset, "the last offset is the last batch's"
        self.append_batches(buffer, found)

    def append_batches(self, buffer: Buffer, batches: Sequence[BatchHeader]) -> None:
        """On OSError the segment is unchanged; on StorageFailure the write could not be rolled back."""
        if not batches:
            return
        records, indexes = self.records, self.indexes
        if not indexes.is_grown:
            indexes.grow()
        indexes.make_room()
        if indexes.largest is None:
            indexes.largest = self.search.largest_indexed_time()
        records.write(buffer)
        position = records.size
        if position == 0:
            self._first_timestamp = batches[0].max_timestamp
        with failing(self.files.folder, "indexing a batch"):  # it is written
            for header in batches:
                indexes.index_batch(header, position)
                position += header.size
        records.size = position
        if self.limits is not None and indexes.is_full:
            self.limits = None

    def set_limits(self, options: LogOptions) -> None:
        """Compute, after an append, the limits below which the next appends skip the check for a roll."""
        first, indexes = self._first_timestamp, self.indexes
        is_usual = indexes.is_grown and not self.records.is_preallocated and not indexes.is_full
        if first is not None and first >= 0 and is_usual:
            self.limits = Limits(
                options.segment_bytes,
                first + options.max_segment_ms - self.jitter_ms,
                self.base_offset + RELATIVE_OFFSET_LIMIT,
            )

    def append_one(
        self,
        buffer: bytearray | memoryview,
        base_offset: int,
        leader_epoch: int,
        last_offset: int,
        max_timestamp: int,
    ) -> bool:
        """Assign offsets to one batch and append it, as `append_batches` would, within the limits.

        Returns False, with nothing changed, if the segment has no limits or the batch exceeds them.
        """
        limits, records, indexes, size = self.limits, self.records, self.indexes, len(buffer)
        position = records.size
        if (
            limits is None
            or position > limits.size - size
            or max_timestamp > limits.timestamp
            or last_offset > limits.offset
        ):
            return False
        is_entry_due = indexes.bytes_since_entry > indexes.interval_bytes
        if is_entry_due:
            indexes.make_room()
        patch_offsets(buffer, 0, base_offset, leader_epoch)
        try:
            (records.handle or records.file()).append((buffer,))
        except OSError as error:
            records.undo_write(error)
            raise
        largest = indexes.largest
        assert largest is not None, "a segment with limits has its largest timestamp"
        if max_timestamp > largest.timestamp:
            indexes.largest = TimestampOffset(max_timestamp, last_offset)
        if is_entry_due:
            with failing(self.files.folder, "indexing a batch"):  # it is written
                if not indexes.add_entries(last_offset, position):
                    self.limits = None
        indexes.bytes_since_entry += size
        records.size = position + size
        return True

    def can_hold(self, last_offset: int) -> bool:
        """Whether the relative offset fits the four bytes of an index entry."""
        return self.indexes.can_hold(last_offset)

    def should_roll(
        self, options: LogOptions, now_ms: int, size: int, last_offset: int, max_timestamp: int
    ) -> bool:
        """Whether the log must roll before this append.  Segment age is measured by record timestamps."""
        if self.size > options.segment_bytes - size:
            return True
        if self.size > 0:
            waited_ms = self._waited_ms(now_ms, max_timestamp)
            if waited_ms > options.max_segment_ms - self.jitter_ms:
                return True
        indexes = self.indexes
        if not indexes.is_grown:
            indexes.grow()
        return indexes.is_full or not indexes.can_hold(last_offset)

    def _waited_ms(self, now_ms: int, max_timestamp: int) -> int:
        first = self._first_batch_time()
        return max_timestamp - first if first >= 0 else now_ms - self.created_ms

    def _first_batch_time(self) -> int:
        if self._first_timestamp is None:
            first = None
            with contextlib.suppress(CorruptBatch):  # damaged: treated as without a timestamp
                first = next(self.headers(), None)
            if first is None:
                return NO_TIMESTAMP
            self._first_timestamp = first.max_timestamp
        return self._first_timestamp

    # Batches and lookups, delegated to the parts

    @property
    def size(self) -> int:
        """The length of the batches."""
        return self.records.size

    @property
    def valid_from(self) -> int:
        """The position from which on every batch is known to be valid."""
        return self.records.valid_from

    @property
    def transaction_index(self) -> TransactionIndex:
        return self.indexes.transaction_index

    def path(self, kind: str) -> str:
        """The path of one of its files, e.g. `log_files.LOG`."""
        return self.files.path(kind)

    def file(self) -> File:
        return self.records.file()

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes of the batches from `position` on."""
        return self.records.read_at(position, length)

    def slice(self, position: int, length: int) -> Slice:
        return self.records.slice(position, length)

    def headers(self, start: int = 0, end: int | None = None) -> Iterator[BatchHeader]:
        """The batch headers from a position on.  Raises CorruptBatch if they do not reach the end."""
        return self.records.headers(start, end)

    def pieces(
        self, start: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, bytes, list[BatchHeader]]]:
        """(position, bytes, headers) of complete batches in bounded pieces."""
        return self.records.pieces(start, end)

    def check(self, start: int, end: int, limit: int = LONG_MAX) -> int:
        """The end of the valid batches from `start` on; see FileRecords."""
        return self.records.check(start, end, limit)

    def locate(self, offset: int) -> BatchHeader | None:
        """The batch that contains the offset, or the first one after it; None past the last."""
        return self.search.locate(offset)

    def next_offset(self) -> int:
        """The offset after the last stored one; base_offset if empty."""
        return self.search.next_offset()

    def add_aborted(
        self, producer_id: int, first_offset: int, last_offset: int, last_stable_offset: int
    ) -> None:
        """Add an entry to the transaction index."""
        self.indexes.add_aborted(producer_id, first_offset, last_offset, last_stable_offset)

    def aborted_transactions(self) -> list[AbortedTransaction]:
        return self.transaction_index.all()

    # Indexes, after a crash

    def reset_indexes(self) -> None:
        """Remove all entries of both sparse indexes, to rebuild them with `index_batch`."""
        self.limits = None
        self.indexes.reset()

    def index_batch(self, header: BatchHeader) -> None:
        """Add the entries that an append of this batch would have added."""
        self.indexes.make_room()
        self.indexes.index_batch(header, header.position)

    def close_indexes(self) -> None:
        """Complete a rebuild after `reset_indexes`: add the last time index entry and trim both indexes."""
        self.indexes.close(self.max_timestamp_offset)

    def grow_indexes(self) -> None:
        """Make room for more entries: the segment is active (again)."""
        self.indexes.grow()

    # Timestamps

    @property
    def max_timestamp_offset(self) -> TimestampOffset:
        """The largest timestamp so far and the last offset of its batch."""
        indexes = self.indexes
        if indexes.largest is None:
            was_open = self.records.handle is not None or indexes.time_index.is_loaded
            indexes.largest = self.search.largest_indexed_time()
            if not was_open:  # retention checks every segment and leaves none open
                self.release()
        return indexes.largest

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of the records, -1 if they have none."""
        return self.max_timestamp_offset.timestamp

    @property
    def largest_timestamp(self) -> int:
        """The largest record timestamp, or the file's modification time if there is none; for retention."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self.files.modified_ms

    @property
    def first_batch_timestamp(self) -> int:
        """Max timestamp of the first batch; LONG_MAX if there is none (for max.compaction.lag.ms)."""
        timestamp = self._first_batch_time()
        return timestamp if timestamp >= 0 else LONG_MAX

    # Truncating, rolling, closing

    def truncate_to(self, offset: int) -> int:
        """Remove the batch of this offset and all later ones; returns the number of bytes removed."""
        self.limits = None
        header = self.locate(offset)
        self.indexes.truncate_to(offset)
        # The segment is active from now on, so its indexes need room again.
        self.indexes.grow()
        dropped = 0
        if header is not None:
            dropped = self.size - header.position
            self.records.cut(header.position)
        if self.size == 0:
            self.created_ms = self._clock.wall_ms()
            self._first_timestamp = None
        self.indexes.largest = self.search.largest_time_left()
        return dropped

    def cut(self, size: int) -> None:
        """Truncate the log file."""
        self.records.cut(size)

    def become_inactive(self) -> None:
        """Add the last time index entry and trim indexes and log file: on roll, and after cleaning."""
        self.limits = None
        self.indexes.close_times(self.max_timestamp_offset)
        self.indexes.trim()
        if self.records.is_preallocated:
            self.records.cut(self.size)

    def close(self, *, sync: bool = True) -> None:
        """Trim grown files, then release."""
        self.limits = None
        records, indexes = self.records, self.indexes
        if indexes.is_grown and indexes.largest is not None:
            indexes.close_times(indexes.largest)
        indexes.trim_loaded(sync=sync)
        if records.is_preallocated:
            records.cut(records.size)
            if sync:
                records.sync()
        self.release()

    def sync(self) -> None:
        """Sync the log file and the indexes."""
        self.records.sync()
        self.indexes.sync()

    def write_out(self) -> None:
        """Write buffered index entries to their files."""
        self.indexes.write_out()

    def change_suffix(self, suffix: str) -> None:
        """Rename all files to the suffix `.cleaned`, `.swap`, `.deleted` or none."""
        self.files.change_suffix(suffix)
        self.indexes.follow_files()

    def move_to(self, folder: str) -> None:
        """Called when its folder was renamed."""
        self.files.folder = folder
        self.indexes.follow_files()

    def release(self) -> None:
        """Close the files and free memory; the next use opens them again."""
        self.indexes.release()
        self.records.release()

    def delete(self) -> None:
        """Close and remove the files immediately."""
        self.release()
        self.files.remove()
