"""The two sparse indexes of a segment: offset -> position and timestamp -> offset.

Contains their file format, lookups, and how they grow and are trimmed.  segment_indexes.py decides when an
entry is due.

    .index      relative offset (4 bytes), position (4 bytes); the offset is a batch's last one
    .timeindex  timestamp (8 bytes), relative offset (4 bytes); the largest timestamp up to that offset

Entries are sorted.  The index of an active segment is a sparse file of segment.index.bytes, cut to its
entries when the segment is rolled or closed.  Only the tail, which appends and most readers use, and the
older block that was last read are in memory: an index never costs more than that, however long it is.
Entries are buffered in the tail and written together; after a crash, recovery rebuilds the index of the
active segment and of each rolled segment that was not synced.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from struct import Struct
from typing import ClassVar, NamedTuple

from barnabas.runtime.disk.disk import Disk, File

# Entries per block; a block is read at once.
BLOCK_ENTRIES = 512
# The tail is written and reduced to one block when it reaches this many entries.
MAX_TAIL_ENTRIES = 2 * BLOCK_ENTRIES

RELATIVE_OFFSET_LIMIT = 2**31 - 1
NO_TIMESTAMP = -1


class OffsetPosition(NamedTuple):
    """The batch with the last offset `offset` starts at `position`."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """No record up to `offset` is later than `timestamp`."""

    timestamp: int
    offset: int


class SparseIndex(ABC):
    """Base of both indexes: a sorted array of fixed-width entries in a file."""

    entry: ClassVar[Struct]
    # Slots reserved for the entry that is added when the segment is rolled.
    reserved: ClassVar[int] = 0

    __slots__ = (
        "_block",
        "_block_first",
        "_disk",
        "_file",
        "_tail",
        "_tail_first",
        "_unsynced",
        "_written",
        "base_offset",
        "capacity",
        "entries",
        "length",
        "max_bytes",
        "max_entries",
        "path",
    )

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.max_bytes = max_bytes
        self.entries = 0
        self.length = 0
        self.max_entries = 0
        # The index is full with this many entries.
        self.capacity = 0
        self._disk = disk
        self._file: File | None = None
        self._tail = bytearray()
        self._tail_first = 0
        self._written = 0
        self._unsynced = False
        self._block = b""
        self._block_first = 0

    @property
    def is_loaded(self) -> bool:
        return self._file is not None

    @property
    def is_full(self) -> bool:
        return self.entries >= self.capacity

    def load(self) -> None:
        """Open the file; a missing one is created empty, at its full size."""
        self._open(is_new=not self._disk.exists(self.path))

    def create(self) -> None:
        """Create the missing file, as `load` does."""
        self._open(is_new=True)

    def _open(self, *, is_new: bool) -> None:
        self._file = file = self._disk.open(self.path, create=True)
        try:
            if is_new:
                file.truncate(self._rounded(self.max_bytes))
            self._set_length(file.size)
            self.entries = 0 if is_new else self.length // self.entry.size
            self._written = self.entries
            self._read_tail()
        except OSError:
            # The next use retries, and must not find the index loaded.
            self._file = None
            file.close()
            raise

    def release(self) -> None:
        """Close the file and free the memory; the next use loads the index again."""
        if self._file is None:
            return
        self.write_out()
        self._file.close()
        self._file = None
        self._tail = bytearray()
        self._block = b""

    def write_out(self) -> None:
        """Write the buffered entries to the file, in one write."""
        if self._written < self.entries:
            size = self.entry.size
            # A copy: a view kept alive by an error's traceback would prevent the tail from growing.
            waiting = bytes(self._tail[(self._written - self._tail_first) * size :])
            self._opened().write_at(self._written * size, waiting)
            self._written = self.entries
            self._unsynced = True

    def make_room(self) -> None:
        """Called before an append: writes a long tail, so that the append itself cannot fail half-way."""
        if self.entries - self._tail_first >= MAX_TAIL_ENTRIES:
            self.write_out()
            keep_from = self.entries - BLOCK_ENTRIES
            del self._tail[: (keep_from - self._tail_first) * self.entry.size]
            self._tail_first = keep_from

    def sync(self) -> None:
        """Sync the file, if anything has changed since the last sync."""
        self.write_out()
        if self._unsynced:
            self._opened().sync()
            self._unsynced = False

    @property
    def is_sane(self) -> bool:
        """Whether the last entry is above the first: an index that was never trimmed ends with zeroes."""
        return self.entries < 2 or self._values(self.entries - 1) > self._values(0)

    def resize(self, size: int) -> None:
        """Resize the file to `size` bytes of entries, but never below its current entries."""
        rounded = max(self._rounded(size), self.entries * self.entry.size)
        if rounded != self.length:
            self.write_out()
            self._opened().truncate(rounded)
            self._set_length(rounded)
            self._unsynced = True

    def trim(self) -> None:
        """Truncate the file to its entries."""
        self.resize(0)
        self.write_out()

    def reset(self) -> None:
        """Remove all entries and restore the full size."""
        self._keep(0)
        self.resize(self.max_bytes)

    def moved_to(self, path: str) -> None:
        """The file was renamed; an open handle follows by itself."""
        self.path = path

    def _set_length(self, length: int) -> None:
        self.length = length
        self.max_entries = length // self.entry.size
        self.capacity = self.max_entries - self.reserved

    def _keep(self, entries: int) -> None:
        """Drop all but the first `entries` entries."""
        if entries < self.entries:
            self.entries = entries
            self._written = min(self._written, entries)
            self._block = b""
            if entries < self._tail_first:
                self._read_tail()
            else:
                del self._tail[(entries - self._tail_first) * self.entry.size :]
                self._note_last()

    @abstractmethod
    def _note_last(self) -> None:
        """Read the last entry again, after any change other than an append."""

    def _read_tail(self) -> None:
        size = self.entry.size
        self._tail_first = max(0, self.entries - BLOCK_ENTRIES)
        length = (self.entries - self._tail_first) * size
        self._tail = bytearray(self._opened().read_at(self._tail_first * size, length))
        self._block = b""
        self._note_last()

    def _values(self, number: int) -> tuple[int, ...]:
        """The entry with this number, from memory or the file."""
        size = self.entry.size
        if number >= self._tail_first:
            return self.entry.unpack_from(self._tail, (number - self._tail_first) * size)
        within = (number - self._block_first) * size
        if 0 <= within < len(self._block):
            return self.entry.unpack_from(self._block, within)
        return self.entry.unpack(self._opened().read_at(number * size, size))

    def _floor(self, target: int, field: int) -> int:
        """Number of the last entry whose field is not above the target; -1 if there is none."""
        if self.entries == 0:
            return -1
        if self._values(self._tail_first)[field] <= target:
            return self._tail_first + self._floor_in(self._tail, target, field)
        if self._tail_first == 0:
            return -1
        size = self.entry.size
        if not self._block or not (
            self.entry.unpack_from(self._block, 0)[field]
            <= target
            <= self.entry.unpack_from(self._block, len(self._block) - size)[field]
        ):
            self._find_block(target, field)
        return self._block_first + self._floor_in(self._block, target, field)

    def _find_block(self, target: int, field: int) -> None:
        """Read the block before the tail that contains the target's entry."""
        blocks = range((self._tail_first + BLOCK_ENTRIES - 1) // BLOCK_ENTRIES)
        above = bisect_right(blocks, target, key=lambda block: self._values(block * BLOCK_ENTRIES)[field])
        self._block_first = max(0, above - 1) * BLOCK_ENTRIES
        count = min(BLOCK_ENTRIES, self._tail_first - self._block_first)
        size = self.entry.size
        self._block = self._opened().read_at(self._block_first * size, count * size)

    def _floor_in(self, block: bytes | bytearray, target: int, field: int) -> int:
        unpack_from, size = self.entry.unpack_from, self.entry.size
        numbers = range(len(block) // size)
        return bisect_right(numbers, target, key=lambda number: unpack_from(block, number * size)[field]) - 1

    def _rounded(self, size: int) -> int:
        return size - size % self.entry.size

    def _opened(self) -> File:
        assert self._file is not None, "an index is loaded before it is used"
        return self._file


class OffsetIndex(SparseIndex):
    """Where to start reading for an offset."""

    entry = Struct(">ii")
    __slots__ = ("last_offset",)

    def _note_last(self) -> None:
        relative = self._values(self.entries - 1)[0] if self.entries else 0
        self.last_offset = self.base_offset + relative

    def append(self, offset: int, position: int) -> None:
        if self.entries and offset <= self.last_offset:
            raise ValueError(f"{self.path}: offset {offset} does not follow {self.last_offset}")
        if self.entries >= self.max_entries:
            raise ValueError(f"{self.path}: the index is full ({self.entries} entries)")
        self._tail += self.entry.pack(offset - self.base_offset, position)
        self.entries += 1
        self.last_offset = offset

    def at(self, number: int) -> OffsetPosition:
        relative, position = self._values(number)
        return OffsetPosition(self.base_offset + relative, position)

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry at or before the offset; the segment's start if there is none."""
        number = self._floor(offset - self.base_offset, 0)
        return self.at(number) if number >= 0 else OffsetPosition(self.base_offset, 0)

    def first_at_position(self, position: int) -> OffsetPosition | None:
        """The first entry at or after a position."""
        number = self._floor(position, 1)
        if number >= 0 and self.at(number).position == position:
            return self.at(number)
        return self.at(number + 1) if number + 1 < self.entries else None

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of this offset and later ones."""
        number = self._floor(offset - self.base_offset, 0)
        if number >= 0 and self.at(number).offset == offset:
            number -= 1
        self._keep(number + 1)


class TimeIndex(SparseIndex):
    """Where to start looking for a timestamp."""

    entry = Struct(">qi")
    reserved = 1
    __slots__ = ("last",)

    def _note_last(self) -> None:
        none = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self.last = self.at(self.entries - 1) if self.entries else none

    def maybe_append(self, timestamp: int, offset: int, *, closing: bool = False) -> None:
        """An entry, if the timestamp is above the last one; `closing` may use the last free slot."""
        last = self.last
        if self.entries and (offset < last.offset or timestamp < last.timestamp):
            raise ValueError(f"{self.path}: ({timestamp}, {offset}) is before the last entry {last}")
        if timestamp > last.timestamp:
            if self.is_full and not (closing and self.entries < self.max_entries):
                raise ValueError(f"{self.path}: the index is full ({self.entries} entries)")
            self._tail += self.entry.pack(timestamp, offset - self.base_offset)
            self.entries += 1
            self.last = TimestampOffset(timestamp, offset)

    def at(self, number: int) -> TimestampOffset:
        timestamp, relative = self._values(number)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or before the timestamp; the segment's start if there is none."""
        number = self._floor(timestamp, 0)
        return self.at(number) if number >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of this offset and later ones."""
        number = self._floor(offset - self.base_offset, 1)
        if number >= 0 and self.at(number).offset == offset:
            number -= 1
        self._keep(number + 1)
