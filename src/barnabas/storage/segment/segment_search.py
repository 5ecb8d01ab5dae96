"""Finding batches in a segment, and believing nothing that was not checked.

What lives here: from an offset or a time to a batch, by indexes that may be wrong, over batches that may be
damaged.  What may not: appending, and making indexes anew (segment.py).

An index only says where to start looking.  What it points to is checked, and an index that points nowhere is
made anew from the batches' headers; unless the batches are damaged, for then it may know better than they.

A batch that this process has written had a right CRC then.  Any other is checked when this process reads it
for the first time, also one that recovery has read: a start after a clean stop reads no more than the last
batches.  None is checked twice, for fetches are sent from the page cache and never pass through this process:
what a device or a stray writer does to a batch after that is found by the client's own check (`check.crcs`),
by the cleaner, and by the first read after the next start.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from barnabas.batch.view import CorruptBatch
from barnabas.runtime.disk.disk import Disk, Slice
from barnabas.storage.log import log_files
from barnabas.storage.log.log_options import LONG_MAX
from barnabas.storage.segment.batch_headers import WINDOW_BYTES, BatchHeader, crc_ok, headers, pieces
from barnabas.storage.segment.index import NO_TIMESTAMP, OffsetPosition, TimestampOffset
from barnabas.storage.segment.segment_files import SegmentFiles

# So many entries before one that leads to no batch are tried; then the search begins at the segment's start.
ENTRIES_TRIED = 8
# Of the batches after the last index entry the last of this size are checked after a clean stop.
MAX_TAIL_BYTES = 8 << 20


class Checked(NamedTuple):
    """Batches between two positions were found to be sound; the last one ends with this offset."""

    start: int
    end: int
    last_offset: int


NOTHING_CHECKED = Checked(-1, -1, -1)


class SegmentSearch(SegmentFiles):
    """The part of a segment that looks for batches.

    From `sound_from` on every batch is known to be sound.
    """

    __slots__ = ("_checked", "_rebuilt", "sound_from")

    def __init__(
        self, disk: Disk, folder: str, base_offset: int, index_bytes: int, size: int, suffix: str
    ) -> None:
        super().__init__(disk, folder, base_offset, index_bytes, size, suffix)
        self.sound_from = size
        # A part before that which readers have found to be sound.
        self._checked = NOTHING_CHECKED
        # Whether the indexes were made anew: None if they had not to be, False if they could not be.
        self._rebuilt: bool | None = None

    # Walking

    def headers(self, start: int = 0, end: int | None = None) -> Iterator[BatchHeader]:
        """The headers of the batches from a position on; CorruptBatch where they do not go on to the end."""
        position, stop = start, self.size if end is None else min(end, self.size)
        try:
            for header in headers(self.file(), start, stop):
                yield header
                position = header.end
        except CorruptBatch as error:
            raise self._corrupt(error) from error
        if end is None and position < stop:
            raise self._corrupt(CorruptBatch(f"the batch at position {position} is not whole"))

    def pieces(
        self, start: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, bytes, list[BatchHeader]]]:
        """(position, bytes, headers) of whole batches in bounded pieces; the bytes may go on behind them."""
        return pieces(self.file(), start, self.size if end is None else min(end, self.size))

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """(position, whole batches) in bounded pieces: the way to walk a segment."""
        for position, data, found in self.pieces(start, end):
            yield position, data[: found[-1].end - position]

    # Checking

    def check(self, start: int, end: int, limit: int = LONG_MAX) -> int:
        """Where the sound batches from `start` on end, `end` if they reach it; CorruptBatch if there is none.

        Their CRCs are right, and their offsets ascend and stay below the limit, which is that of the next
        segment.  A batch of which `end` cuts off a part is not looked at, and left out unless it is alone.
        """
        known = self._checked
        sound, last_offset = start, self.base_offset - 1 if start == 0 else None
        if known.start <= start <= known.end:
            sound, last_offset = known.end, known.last_offset
        stop = min(end, self.sound_from)
        if sound >= stop:
            return end
        try:
            for header in self._sound_headers(sound, stop, last_offset, limit):
                sound, last_offset = header.end, header.last_offset
        except CorruptBatch as error:
            if sound == start:
                raise self._corrupt(error) from error
        if sound > start and last_offset is not None:
            self._note_sound(Checked(start, sound, last_offset))
        return sound if start < sound < stop else end

    def _sound_headers(
        self, start: int, end: int, last_offset: int | None, limit: int
    ) -> Iterator[BatchHeader]:
        """Each waits for its successor: of two that do not follow each other, the one that leapt is damaged.

        Where that cannot be told, both are.
        """
        waiting: BatchHeader | None = None
        try:
            for position, data, found in self.pieces(start, end):
                for header in found:
                    if not crc_ok(header, data, header.position - position):
                        raise CorruptBatch(f"the batch at position {header.position} has a wrong CRC")
                    if waiting is not None:
                        if (
                            header.base_offset <= waiting.last_offset
                            and waiting.base_offset - 1 != last_offset
                        ):
                            leapt, waiting = waiting, None
                            raise _misplaced(leapt)
                        yield waiting
                        last_offset, waiting = waiting.last_offset, None
                    if header.last_offset >= limit or (
                        last_offset is not None and header.base_offset <= last_offset
                    ):
                        raise _misplaced(header)
                    waiting = header
        except CorruptBatch:
            if waiting is not None:
                yield waiting
            raise
        if waiting is not None:
            yield waiting

    def _note_sound(self, checked: Checked) -> None:
        known = self._checked
        if checked.start <= known.end and known.start <= checked.end:
            later = max(checked, known, key=lambda one: one.end)
            checked = Checked(min(known.start, checked.start), later.end, later.last_offset)
        self._checked = checked
        if checked.end >= self.sound_from:
            self.sound_from = checked.start

    def cut(self, size: int) -> None:
        super().cut(size)
        self.sound_from = min(self.sound_from, size)
        if self._checked.end > size:
            self._checked = NOTHING_CHECKED

    def ends_whole(self) -> bool:
        """Whether the batches after the last index entry are sound, up to the end of the file."""
        if self.size == 0:
            return True
        try:
            tail = (
                header
                for header in self._headers_for(self.offsets().last_offset)
                if self.size - header.position <= MAX_TAIL_BYTES or header.end == self.size
            )
            first = next(tail, None)
            return first is not None and self.check(first.position, self.size) == self.size
        except CorruptBatch:
            return False

    def _corrupt(self, error: CorruptBatch) -> CorruptBatch:
        return CorruptBatch(f"{self.path(log_files.LOG)}: {error.message}", error.code)

    # By offset

    def locate(self, offset: int) -> BatchHeader | None:
        """The batch that holds the offset, or the first one after it; None past the last."""
        for header in self._headers_for(offset):
            if header.last_offset >= offset:
                return header
        return None

    def cold_for(self, offset: int, max_bytes: int) -> Slice | None:
        """What a reader from an offset on needs, if finding its first batch would wait for the device."""
        position = self.offsets().lookup(offset).position
        if self.slice(position, WINDOW_BYTES).is_resident():
            return None
        return self.slice(position, max(max_bytes, WINDOW_BYTES))

    def position_before(self, offset: int) -> int:
        """Where to start looking for a batch at or after the one of an offset."""
        header = self.locate(offset)
        return 0 if header is None else header.position

    def next_offset(self) -> int:
        """One past the last offset that is stored here; base_offset if empty."""
        last = next(iter(self.last_headers(1)), None)
        return self.base_offset if last is None else last.last_offset + 1

    def last_headers(self, count: int) -> Sequence[BatchHeader]:
        """The headers of the last batches."""
        offset = self.offsets().last_offset
        # The last index entry is sure to have one batch behind it, the one before it has two.
        return deque(self._headers_for(offset if count == 1 else offset - 1), maxlen=count)

    def offset_at(self, position: int) -> int | None:
        """An offset not below those of batches before this position, if the index knows one."""
        entry = self.offsets().first_at_position(position)
        return None if entry is None or self._confirmed(entry) is None else entry.offset

    def _headers_for(self, offset: int) -> Iterator[BatchHeader]:
        """Headers from a batch at or before the offset's on, as the index says and the file confirms."""
        entry = self.offsets().lookup(offset)
        if entry.position == 0 or self._rebuilt:
            return self.headers(entry.position)
        following = self._confirmed(entry)
        if following is not None:
            return following
        if self.rebuild_indexes(f"{entry} of the offset index leads to no batch"):
            return self.headers(self.offsets().lookup(offset).position)
        return self._headers_before(entry)

    def _confirmed(self, entry: OffsetPosition) -> Iterator[BatchHeader] | None:
        """Headers from an index entry's batch on; None if there is no such batch."""
        if not 0 <= entry.position < self.size:
            return None
        following = self.headers(entry.position)
        with contextlib.suppress(CorruptBatch):
            header = next(following, None)
            if header is not None and self.base_offset <= header.base_offset <= entry.offset:
                return chain((header,), following)
        return None

    def _headers_before(self, entry: OffsetPosition) -> Iterator[BatchHeader]:
        """Headers from the last entry before this one on that the file confirms."""
        for _ in range(ENTRIES_TRIED):
            entry = self.offsets().lookup(entry.offset - 1)
            if entry.position == 0:
                break
            following = self._confirmed(entry)
            if following is not None:
                return following
        return self.headers()

    # By time

    def find_time(self, timestamp: int) -> int:
        """A position at or before the first batch with a record of this time or later."""
        entry = self.times().lookup(timestamp)
        if entry.timestamp == NO_TIMESTAMP:
            return 0
        header = self.locate(entry.offset)
        if self._rebuilt or self._has_time(header, entry):
            return header.position if header is not None else 0
        if self.rebuild_indexes(f"{entry} of the time index names another batch's time"):
            return self.find_time(timestamp)
        return 0

    def _has_time(self, header: BatchHeader | None, entry: TimestampOffset) -> bool:
        """Whether a batch confirms an entry of the time index; CorruptBatch if the batch is at fault."""
        if header is None:
            return False
        if header.max_timestamp != entry.timestamp:
            self._check_crc(header)
            return False
        return True

    def largest_indexed_time(self) -> TimestampOffset:
        """The last entry of the time index.  A later time would hide records, an earlier one let them expire.

        It must be that of its batch, and not be surpassed by the last batches of the segment.
        """
        last = self.times().last
        if self._rebuilt:
            return last
        try:
            confirmed = last.timestamp == NO_TIMESTAMP or self._has_time(self.locate(last.offset), last)
            for header in self._headers_for(self.offsets().last_offset) if confirmed else ():
                if header.max_timestamp > last.timestamp:
                    self._check_crc(header)
                    confirmed = False
        except CorruptBatch:
            self._rebuilt = False
            return self._largest_time_from(0)
        if confirmed or self.rebuild_indexes(f"{last} cannot be the last entry of the time index"):
            return self.times().last
        return self._largest_time_from(0)

    def _largest_time_from(self, position: int) -> TimestampOffset:
        """That of the last index entry or of a batch from there on, as far as they can be read."""
        largest = self.times().last
        with contextlib.suppress(CorruptBatch):
            for header in self.headers(position):
                if header.max_timestamp > largest.timestamp:
                    largest = TimestampOffset(header.max_timestamp, header.last_offset)
        return largest

    def _check_crc(self, header: BatchHeader) -> None:
        if not crc_ok(header, self.read_at(header.position, header.size), 0):
            raise CorruptBatch(f"{self.path(log_files.LOG)}: {header!r} has a wrong CRC")


def _misplaced(header: BatchHeader) -> CorruptBatch:
    return CorruptBatch(
        f"the batch at position {header.position} has the offsets {header.base_offset} to"
        f" {header.last_offset},"
        " which do not fit those around it"
    )
