"""One segment of a log: the batches, the two sparse indexes, the index of aborted transactions.

What lives here: appending, when to roll, cutting and sealing.  What may not: the batches' file
(file_records.py), index entries (segment_indexes.py), finding a batch (segment_search.py), which segments a
log has, and what the offsets mean to producers and followers.

Nothing is open until it is needed, and `release` closes it again: a segment that nobody reads costs about a
kilobyte.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from barnabas.batch.view import BatchHeader, CorruptBatch, patch_offsets
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Buffer, Disk, File, Slice
from barnabas.storage.log.log_options import LONG_MAX, LogOptions
from barnabas.storage.segment.batch_headers import header_at
from barnabas.storage.segment.file_records import FileRecords
from barnabas.storage.segment.index import NO_TIMESTAMP, RELATIVE_OFFSET_LIMIT, TimestampOffset
from barnabas.storage.segment.segment_files import SegmentFiles
from barnabas.storage.segment.segment_indexes import SegmentIndexes
from barnabas.storage.segment.segment_search import SegmentSearch
from barnabas.storage.segment.transaction_index import AbortedTransaction, TransactionIndex


class Limits(NamedTuple):
    """Up to which size, time and offset a segment takes batches without another look."""

    size: int
    timestamp: int
    offset: int


class Segment:
    """The batches of one base offset, and the way to find one among them.

    `records` are the batches, `indexes` the ways to them, `search` finds one by the other; `files` are the
    names of it all.
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
        # None whenever it is not sure that the next append goes here as it is.
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
        """A new, empty segment; whatever lies there under its names is removed first."""
        segment = cls(disk, clock, folder, base_offset, options, suffix=suffix, jitter_ms=jitter_ms)
        if not is_in_new_folder:
            segment.files.remove()
        segment.records.create(options.segment_bytes if options.preallocate else None)
        segment.indexes.create()
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.base_offset}, {self.size} bytes)"

    # Appending

    def append(self, buffer: Buffer, last_offset: int) -> None:
        """Whole batches that end with last_offset, in one write; index entries as they are due."""
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
        """When it raises OSError the segment is as it was; StorageFailure: it could not be put right."""
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
        for header in batches:
            indexes.index_batch(header, position)
            position += header.size
        records.size = position
        if self.limits is not None and indexes.is_full:
            self.limits = None

    def set_limits(self, options: LogOptions) -> None:
        """After an append: up to where the next ones need not ask whether to roll."""
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
        """Place one batch and append it, as `append_batches` would, if the segment is not at a turn.

        False: it is new, full, old or odd; nothing has happened.  OSError as there.
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
        assert largest is not None, "a segment between turns knows its times"
        if max_timestamp > largest.timestamp:
            indexes.largest = TimestampOffset(max_timestamp, last_offset)
        if is_entry_due and not indexes.add_entries(last_offset, position):
            self.limits = None
        indexes.bytes_since_entry += size
        records.size = position + size
        return True

    def can_hold(self, last_offset: int) -> bool:
        """Whether the offset still fits the four bytes that indexes have for it."""
        return self.indexes.can_hold(last_offset)

    def should_roll(
        self, options: LogOptions, now_ms: int, size: int, last_offset: int, max_timestamp: int
    ) -> bool:
        """Whether a new segment is due before this append.  Time passes as the records' own times say."""
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
            with contextlib.suppress(CorruptBatch):  # damaged: as if it had no time
                first = next(self.headers(), None)
            if first is None:
                return NO_TIMESTAMP
            self._first_timestamp = first.max_timestamp
        return self._first_timestamp

    # The batches, and finding one: what the parts do

    @property
    def size(self) -> int:
        """The length of the batches."""
        return self.records.size

    @property
    def sound_from(self) -> int:
        """From this position on every batch is known to be sound."""
        return self.records.sound_from

    @property
    def transaction_index(self) -> TransactionIndex:
        return self.indexes.transaction_index

    def path(self, kind: str) -> str:
        """Of one of its files, e.g. `log_files.LOG`."""
        return self.files.path(kind)

    def file(self) -> File:
        return self.records.file()

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes of the batches from `position` on."""
        return self.records.read_at(position, length)

    def slice(self, position: int, length: int) -> Slice:
        return self.records.slice(position, length)

    def headers(self, start: int = 0, end: int | None = None) -> Iterator[BatchHeader]:
        """The headers of the batches from a position on; CorruptBatch where they do not go on to the end."""
        return self.records.headers(start, end)

    def pieces(
        self, start: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, bytes, list[BatchHeader]]]:
        """(position, bytes, headers) of whole batches in bounded pieces: the way to walk a segment."""
        return self.records.pieces(start, end)

    def check(self, start: int, end: int, limit: int = LONG_MAX) -> int:
        """Where the sound batches from `start` on end; see FileRecords."""
        return self.records.check(start, end, limit)

    def locate(self, offset: int) -> BatchHeader | None:
        """The batch that holds the offset, or the first one after it; None past the last."""
        return self.search.locate(offset)

    def next_offset(self) -> int:
        """One past the last offset that is stored here; base_offset if empty."""
        return self.search.next_offset()

    def add_aborted(
        self, producer_id: int, first_offset: int, last_offset: int, last_stable_offset: int
    ) -> None:
        """One entry of the transaction index."""
        self.indexes.add_aborted(producer_id, first_offset, last_offset, last_stable_offset)

    def aborted_transactions(self) -> list[AbortedTransaction]:
        return self.transaction_index.all()

    # Indexes, after a crash

    def reset_indexes(self) -> None:
        """Forget all entries of both sparse indexes, to feed them anew by `index_batch`."""
        self.limits = None
        self.indexes.reset()

    def index_batch(self, header: BatchHeader) -> None:
        """The entries that an append of this batch would have made."""
        self.indexes.make_room()
        self.indexes.index_batch(header, header.position)

    def close_indexes(self) -> None:
        """After `reset_indexes` and a walk: last time entry, both trimmed; the next append counts anew."""
        self.indexes.close(self.max_timestamp_offset)

    def grow_indexes(self) -> None:
        """The segment is active (again): room for more entries."""
        self.indexes.grow()

    # Times

    @property
    def max_timestamp_offset(self) -> TimestampOffset:
        """The largest timestamp so far and the last offset of its batch."""
        indexes = self.indexes
        if indexes.largest is None:
            was_open = self.records.handle is not None or indexes.time_index.is_loaded
            indexes.largest = self.search.largest_indexed_time()
            if not was_open:  # retention asks every segment: none of them stays open for it
                self.release()
        return indexes.largest

    @property
    def max_timestamp(self) -> int:
        """Of the records, -1 if they have none."""
        return self.max_timestamp_offset.timestamp

    @property
    def largest_timestamp(self) -> int:
        """Of the records; the file's modification time if they have none: what retention compares."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self.files.modified_ms

    @property
    def first_batch_timestamp(self) -> int:
        """Max timestamp of the first batch; LONG_MAX if there is none (for max.compaction.lag.ms)."""
        timestamp = self._first_batch_time()
        return timestamp if timestamp >= 0 else LONG_MAX

    # Shrinking, sealing, closing

    def truncate_to(self, offset: int) -> int:
        """Drop the batch of this offset and all later ones; the number of bytes that went."""
        self.limits = None
        header = self.locate(offset)
        self.indexes.truncate_to(offset)
        # The segment is active from now on, so its indexes get room again.
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
        """Cut the log file itself."""
        self.records.cut(size)

    def become_inactive(self) -> None:
        """Last time index entry; indexes and a preallocated log trimmed: on roll, at the end of cleaning."""
        self.limits = None
        self.indexes.close_times(self.max_timestamp_offset)
        self.indexes.trim()
        if self.records.is_preallocated:
            self.records.cut(self.size)

    def close(self, *, sync: bool = True) -> None:
        """Trim what was grown, then release."""
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
        """Batches and indexes to stable storage."""
        self.records.sync()
        self.indexes.sync()

    def write_out(self) -> None:
        """Index entries that wait in memory, to their files."""
        self.indexes.write_out()

    def change_suffix(self, suffix: str) -> None:
        """Rename all its files: `.cleaned`, `.swap`, `.deleted`, or none."""
        self.files.change_suffix(suffix)
        self.indexes.follow_files()

    def move_to(self, folder: str) -> None:
        """Its folder was renamed."""
        self.files.folder = folder
        self.indexes.follow_files()

    def release(self) -> None:
        """Let go of files and memory; the next use opens them again."""
        self.indexes.release()
        self.records.release()

    def delete(self) -> None:
        """Release and remove the files at once."""
        self.release()
        self.files.remove()
