"""The batches of a segment in their file: written, walked, checked, cut.

What lives here: the `.log` file of a segment, and which of its batches are known to be sound.  What may not:
finding a batch by an index (segment_search.py) and the indexes themselves (segment_indexes.py).

A batch that this process has written had a right CRC then.  Any other is checked when this process reads it
for the first time, also one that recovery has read: a start after a clean stop reads no more than the last
batches.  None is checked twice, for fetches are sent from the page cache and never pass through this process:
what a device or a stray writer does to a batch after that is found by the client's own check (`check.crcs`),
by the cleaner, and by the first read after the next start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.batch.view import BatchHeader, CorruptBatch
from barnabas.runtime.disk.disk import Buffer, File, Slice
from barnabas.storage.failure import StorageFailure
from barnabas.storage.log import log_files
from barnabas.storage.log.log_options import LONG_MAX
from barnabas.storage.segment.batch_chain import sound_batches
from barnabas.storage.segment.batch_headers import crc_ok, headers, pieces
from barnabas.storage.segment.segment_files import SegmentFiles


class Checked(NamedTuple):
    """Batches between two positions were found to be sound; the last one ends with this offset."""

    start: int
    end: int
    last_offset: int


NOTHING_CHECKED = Checked(-1, -1, -1)


class FileRecords:
    """The file is opened when it is needed, and let go by `release`.

    `size` is the length of the batches; a preallocated file is longer.  `handle` is the file if it is open.
    From `sound_from` on every batch is known to be sound.
    """

    __slots__ = ("_checked", "_files", "handle", "is_preallocated", "size", "sound_from")

    def __init__(self, files: SegmentFiles, size: int) -> None:
        self.size = size
        self.handle: File | None = None
        self.is_preallocated = False
        self.sound_from = size
        self._files = files
        # A part before that which readers have found to be sound.
        self._checked = NOTHING_CHECKED

    # The file

    @property
    def path(self) -> str:
        return self._files.path(log_files.LOG)

    def create(self, preallocated_bytes: int | None) -> None:
        """New and empty; nothing lies there under this name."""
        self.handle = self._files.disk.open(self.path, create=True)
        if preallocated_bytes is not None:
            self.handle.truncate(preallocated_bytes)
            self.is_preallocated = True

    def file(self) -> File:
        if self.handle is None:
            self.handle = self._files.disk.open(self.path)
        return self.handle

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes of the batches from `position` on."""
        return self.file().read_at(position, max(0, min(length, self.size - position)))

    def slice(self, position: int, length: int) -> Slice:
        return (self.handle or self.file()).slice(position, max(0, min(length, self.size - position)))

    def write(self, buffer: Buffer) -> None:
        """Behind the batches; the caller says how long they are now.  OSError: nothing has changed."""
        try:
            if self.is_preallocated:
                self.file().write_at(self.size, buffer)
            else:
                (self.handle or self.file()).append((buffer,))
        except OSError as error:
            self.undo_write(error)
            raise

    def undo_write(self, error: OSError) -> None:
        """StorageFailure if the file cannot be put right."""
        try:
            self.file().truncate(self.size)
        except OSError as second:
            raise StorageFailure(self._files.folder, "undoing a failed write", second) from error
        self.is_preallocated = False

    def cut(self, size: int) -> None:
        """Cut the file itself."""
        self.file().truncate(size)
        self.size = size
        self.is_preallocated = False
        self.sound_from = min(self.sound_from, size)
        if self._checked.end > size:
            self._checked = NOTHING_CHECKED

    def sync(self) -> None:
        self.file().sync()

    def release(self) -> None:
        if self.handle is not None:
            self.handle.close()
            self.handle = None

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

    # Checking

    def check(self, start: int, end: int, limit: int = LONG_MAX) -> int:
        """Where the sound batches from `start` on end, `end` if they reach it; CorruptBatch if there is none.

        Their CRCs are right, and their offsets ascend and stay below the limit, which is that of the next
        segment.  A batch of which `end` cuts off a part is not looked at, and left out unless it is alone.
        """
        known = self._checked
        sound, last_offset = start, self._files.base_offset - 1 if start == 0 else None
        if known.start <= start <= known.end:
            sound, last_offset = known.end, known.last_offset
        stop = min(end, self.sound_from)
        if sound >= stop:
            return end
        try:
            for header, _, _, _ in sound_batches(self.pieces(sound, stop), last_offset, limit):
                sound, last_offset = header.end, header.last_offset
        except CorruptBatch as error:
            if sound == start:
                raise self._corrupt(error) from error
        if sound > start and last_offset is not None:
            self._note_sound(Checked(start, sound, last_offset))
        return sound if start < sound < stop else end

    def _note_sound(self, checked: Checked) -> None:
        known = self._checked
        if checked.start <= known.end and known.start <= checked.end:
            later = max(checked, known, key=lambda one: one.end)
            checked = Checked(min(known.start, checked.start), later.end, later.last_offset)
        self._checked = checked
        if checked.end >= self.sound_from:
            self.sound_from = checked.start

    def check_crc(self, header: BatchHeader) -> None:
        """CorruptBatch unless the batch of a header has a right CRC."""
        if not crc_ok(header, self.read_at(header.position, header.size), 0):
            raise CorruptBatch(f"{self.path}: {header!r} has a wrong CRC")

    def _corrupt(self, error: CorruptBatch) -> CorruptBatch:
        return CorruptBatch(f"{self.path}: {error.message}", error.code)
