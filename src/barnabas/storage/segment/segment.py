"""One segment of a log: the batches, the two sparse indexes, the index of aborted transactions.

What lives here: appending batches, keeping the indexes, and sealing.  What may not: finding a batch
(segment_search.py), which segments a log has, and what the offsets mean to producers and followers.

Nothing is open until it is needed, and `release` closes it again: a segment that nobody reads costs a few
hundred bytes.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from typing import NamedTuple

from barnabas.batch.view import CorruptBatch, patch_offsets
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Buffer, Disk
from barnabas.storage.failure import StorageFailure
from barnabas.storage.log import log_files
from barnabas.storage.log.log_options import LONG_MAX, LogOptions
from barnabas.storage.segment.batch_headers import BatchHeader, header_at
from barnabas.storage.segment.index import (
    NO_TIMESTAMP,
    RELATIVE_OFFSET_LIMIT,
    TimestampOffset,
)
from barnabas.storage.segment.segment_search import SegmentSearch

logger = logging.getLogger(__name__)

BATCHES_ARE_DAMAGED = "and batches are damaged, so it stays as it is"


class Limits(NamedTuple):
    """Up to which size, time and offset a segment takes batches without another look."""

    size: int
    timestamp: int
    offset: int


class Segment(SegmentSearch):
    """The batches of one base offset, and the way to find one among them."""

    __slots__ = (
        "_bytes_since_index",
        "_clock",
        "_first_timestamp",
        "_index_interval_bytes",
        "_max",
        "created_ms",
        "jitter_ms",
        "limits",
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
        super().__init__(disk, folder, base_offset, options.segment_index_bytes, size, suffix)
        self.jitter_ms = jitter_ms
        self.created_ms = clock.wall_ms()
        self._clock = clock
        self._index_interval_bytes = options.index_interval_bytes
        self._max: TimestampOffset | None = None
        self._first_timestamp: int | None = None
        self._bytes_since_index = 0
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
            segment.remove_files()
        segment.create_files(options.segment_bytes if options.preallocate else None)
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
        if not self._grown:
            self.grow_indexes()
        self.offset_index.make_room()
        self.time_index.make_room()
        if self._max is None:
            self._max = self.largest_indexed_time()
        self._write(buffer)
        position = self.size
        if position == 0:
            self._first_timestamp = batches[0].max_timestamp
        for header in batches:
            if header.max_timestamp > self._max.timestamp:
                self._max = TimestampOffset(header.max_timestamp, header.last_offset)
            if self._bytes_since_index > self._index_interval_bytes:
                self._add_entries(header.last_offset, position)
            position += header.size
            self._bytes_since_index += header.size
        self.size = position

    def set_limits(self, options: LogOptions) -> None:
        """After an append: up to where the next ones need not ask whether to roll."""
        first = self._first_timestamp
        is_usual = self._grown and not self._preallocated and not self._is_an_index_full
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
        limits, size, position = self.limits, len(buffer), self.size
        if (
            limits is None
            or position > limits.size - size
            or max_timestamp > limits.timestamp
            or last_offset > limits.offset
        ):
            return False
        is_entry_due = self._bytes_since_index > self._index_interval_bytes
        if is_entry_due:
            self.offset_index.make_room()
            self.time_index.make_room()
        patch_offsets(buffer, 0, base_offset, leader_epoch)
        try:
            (self._file or self.file()).append((buffer,))
        except OSError as error:
            self._undo_write(error)
            raise
        largest = self._max
        assert largest is not None, "a segment between turns knows its times"
        if max_timestamp > largest.timestamp:
            self._max = TimestampOffset(max_timestamp, last_offset)
        if is_entry_due:
            self._add_entries(last_offset, position)
        self._bytes_since_index += size
        self.size = position + size
        return True

    @property
    def _is_an_index_full(self) -> bool:
        """Then the next append rolls, whether or not an entry is due with it."""
        return self.offset_index.is_full or self.time_index.is_full

    def _add_entries(self, last_offset: int, position: int) -> None:
        """One entry in each index; none when one append brings more batches than an index has room for."""
        assert self._max is not None
        offsets = self.offset_index
        is_ahead = offsets.entries > 0 and last_offset <= offsets.last_offset
        if is_ahead and not self.rebuild_indexes(f"{offsets.path} is ahead of the batches"):
            return
        if not self._is_an_index_full:
            self.offset_index.append(last_offset, position)
            self._add_time(*self._max)
            self._bytes_since_index = 0
        if self._is_an_index_full:
            self.limits = None

    def _add_time(self, timestamp: int, offset: int, *, closing: bool = False) -> None:
        last = self.times().last
        goes_back = offset < last.offset or timestamp < last.timestamp
        if not goes_back or self._rebuilt is not False:  # an index that is wrong and stays is left alone
            self.time_index.maybe_append(timestamp, offset, closing=closing)

    def _write(self, buffer: Buffer) -> None:
        try:
            if self._preallocated:
                self.file().write_at(self.size, buffer)
            else:
                (self._file or self.file()).append((buffer,))
        except OSError as error:
            self._undo_write(error)
            raise

    def _undo_write(self, error: OSError) -> None:
        try:
            self.file().truncate(self.size)
        except OSError as second:
            raise StorageFailure(self.folder, "undoing a failed write", second) from error
        self._preallocated = False

    def can_hold(self, last_offset: int) -> bool:
        """Whether the offset still fits the four bytes that indexes have for it."""
        return last_offset - self.base_offset <= RELATIVE_OFFSET_LIMIT

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
        if not self._grown:
            self.grow_indexes()
        return self._is_an_index_full or not self.can_hold(last_offset)

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

    # Indexes

    def rebuild_indexes(self, reason: str) -> bool:
        """From the headers alone, at most once, and only if they lead from the first batch to the last."""
        if self._rebuilt is not None:
            return self._rebuilt
        self._rebuilt = self._are_headers_in_order()
        if not self._rebuilt:
            logger.warning("%s: %s, %s", self.path(log_files.LOG), reason, BATCHES_ARE_DAMAGED)
            return False
        logger.warning("%s: %s; the indexes are rebuilt", self.path(log_files.LOG), reason)
        active = self._grown
        self.reset_indexes()
        for header in self.headers():
            self.index_batch(header)
        self._bytes_since_index = 0
        if not active:
            self.close_indexes()
        return True

    def _are_headers_in_order(self) -> bool:
        last_offset = self.base_offset - 1
        try:
            for header in self.headers():
                if not last_offset < header.base_offset or not self.can_hold(header.last_offset):
                    return False
                last_offset = header.last_offset
        except CorruptBatch:
            return False
        return True

    def reset_indexes(self) -> None:
        """Forget all entries of both sparse indexes, to feed them anew by `index_batch`."""
        self.limits = None
        for index in (self.offset_index, self.time_index):
            if not index.is_loaded:
                index.load()
            index.reset()
        self._max = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self._bytes_since_index = 0

    def index_batch(self, header: BatchHeader) -> None:
        """The entries that an append of this batch would have made."""
        assert self._max is not None
        self.offset_index.make_room()
        self.time_index.make_room()
        if header.max_timestamp > self._max.timestamp:
            self._max = TimestampOffset(header.max_timestamp, header.last_offset)
        if self._bytes_since_index > self._index_interval_bytes:
            self._add_entries(header.last_offset, header.position)
        self._bytes_since_index += header.size

    # Times

    @property
    def max_timestamp_offset(self) -> TimestampOffset:
        """The largest timestamp so far and the last offset of its batch."""
        if self._max is None:
            was_open = self._file is not None or self.time_index.is_loaded
            self._max = self.largest_indexed_time()
            if not was_open:  # retention asks every segment: none of them stays open for it
                self.release()
        return self._max

    @property
    def max_timestamp(self) -> int:
        """Of the records, -1 if they have none."""
        return self.max_timestamp_offset.timestamp

    @property
    def largest_timestamp(self) -> int:
        """Of the records; the file's modification time if they have none: what retention compares."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

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
        self.offsets().truncate_to(offset)
        self.times().truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        # The segment is active from now on, so its indexes get room again.
        self.grow_indexes()
        dropped = 0
        if header is not None:
            dropped = self.size - header.position
            self.cut(header.position)
        if self.size == 0:
            self.created_ms = self._clock.wall_ms()
            self._first_timestamp = None
        self._bytes_since_index = 0
        self._max = self._largest_time_left()
        return dropped

    def _largest_time_left(self) -> TimestampOffset:
        largest = self.times().last
        for header in self._headers_for(largest.offset):
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
        return largest

    def become_inactive(self) -> None:
        """Last time index entry; indexes and a preallocated log trimmed: on roll, at the end of cleaning."""
        self.limits = None
        self.close_time_index()
        self.trim_indexes()
        if self._preallocated:
            self.cut(self.size)

    def close_indexes(self) -> None:
        """After `reset_indexes` and a walk: last time entry, both trimmed; the next append counts anew."""
        self.close_time_index()
        self.trim_indexes()
        self._bytes_since_index = 0

    def close_time_index(self) -> None:
        self._add_time(*self.max_timestamp_offset, closing=True)

    def close(self, *, sync: bool = True) -> None:
        """Trim what was grown, then release."""
        self.limits = None
        if self._grown and self._max is not None:
            self.close_time_index()
        for index in (self.offset_index, self.time_index):
            if index.is_loaded:
                index.trim()
                if sync:
                    index.sync()  # a clean stop is marked next: a power loss must not bring the cut part back
        self._grown = False
        if self._preallocated:
            self.cut(self.size)
            if sync:
                self.file().sync()
        self.release()
