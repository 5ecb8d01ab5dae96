"""The `.log` file of a segment: write, iterate, check and truncate its batches.

Contains the file and which of its batches are known to be valid.  Index lookups belong in segment_search.py,
the indexes in segment_indexes.py.

A batch that this process wrote had a right CRC.  Any other batch is checked when it is first read, even if
recovery has read it: a start after a clean shutdown reads only the last batches.  No batch is checked twice:
fetches are sent from the page cache and never pass through this process.  Later damage by the device or
another writer is found by the client's own check (`check.crcs`), by the cleaner, and on the first read after
a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.batch.view import BatchHeader, CorruptBatch
from barnabas.runtime.disk.disk import Buffer, File, Slice
from barnabas.storage.failure import StorageFailure
from barnabas.storage.log import log_files
from barnabas.storage.log.log_options import LONG_MAX
from barnabas.storage.segment.batch_chain import valid_batches
from barnabas.storage.segment.batch_headers import crc_ok, headers, pieces
from barnabas.storage.segment.segment_files import SegmentFiles


class Checked(NamedTuple):
    """The batches between two positions are valid; the last one ends with this offset."""

    start: int
    end: int
    last_offset: int


NOTHING_CHECKED = Checked(-1, -1, -1)


class FileRecords:
    """The file is opened on first use and closed by `release`.

    `size` is the length of the batches; a preallocated file is longer.  `handle` is the file if it is open.
    From `valid_from` on every batch is known to be valid.
    """

    __slots__ = ("_checked", "_files", "handle", "is_preallocated", "size", "valid_from")

    def __init__(self, files: SegmentFiles, size: int) -> None:
        self.size = size
        self.handle: File | None = None
        self.is_preallocated = False
        self.valid_from = size
        self._files = files
        # A range before `valid_from` that readers have checked.
        self._checked = NOTHING_CHECKED

    # The file

    @property
    def path(self) -> str:
        return self._files.path(log_files.LOG)

    def create(self, preallocated_bytes: int | None) -> None:
        """Create an empty file; none of this name exists."""
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
        """Write after the last batch; the caller updates `size`.  On OSError nothing has changed."""
        try:
            if self.is_preallocated:
                self.file().write_at(self.size, buffer)
            else:
                (self.handle or self.file()).append((buffer,))
        except OSError as error:
            self.undo_write(error)
            raise

    def undo_write(self, error: OSError) -> None:
        """Roll back a failed write.  Raises StorageFailure if that fails too."""
        try:
            self.file().truncate(self.size)
        except OSError as second:
            raise StorageFailure(self._files.folder, "undoing a failed write", second) from error
        self.is_preallocated = False

    def cut(self, size: int) -> None:
        """Truncate the file."""
        self.file().truncate(size)
        self.size = size
        self.is_preallocated = False
        self.valid_from = min(self.valid_from, size)
        if self._checked.end > size:
            self._checked = NOTHING_CHECKED

    def sync(self) -> None:
        self.file().sync()

    def release(self) -> None:
        if self.handle is not None:
            self.handle.close()
            self.handle = None

    # Iterating

    def headers(self, start: int = 0, end: int | None = None) -> Iterator[BatchHeader]:
        """The batch headers from a position on.  Raises CorruptBatch if they do not reach the end."""
        position, stop = start, self.size if end is None else min(end, self.size)
        try:
            for header in headers(self.file(), start, stop):
                yield header
                position = header.end
        except CorruptBatch as error:
            raise self._corrupt(error) from error
        if end is None and position < stop:
            raise self._corrupt(CorruptBatch(f"the batch at position {position} is incomplete"))

    def pieces(
        self, start: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, bytes, list[BatchHeader]]]:
        """(position, bytes, headers) of complete batches in bounded pieces; extra bytes may follow them."""
        return pieces(self.file(), start, self.size if end is None else min(end, self.size))

    # Checking

    def check(self, start: int, end: int, limit: int = LONG_MAX) -> int:
        """The end of the valid batches from `start` on, at most `end`.  Raises CorruptBatch if there is none.

        Valid batches have right CRCs and ascending offsets below the limit, the next segment's base offset.
        A batch that extends beyond `end` is not checked, and is excluded unless it is the only one.
        """
        known = self._checked
        valid_end, last_offset = start, self._files.base_offset - 1 if start == 0 else None
        if known.start <= start <= known.end:
            valid_end, last_offset = known.end, known.last_offset
        stop = min(end, self.valid_from)
        if valid_end >= stop:
            return end
        try:
            for header, _, _, _ in valid_batches(self.pieces(valid_end, stop), last_offset, limit):
                valid_end, last_offset = header.end, header.last_offset
        except CorruptBatch as error:
            if valid_end == start:
                raise self._corrupt(error) from error
        if valid_end > start and last_offset is not None:
            self._note_valid(Checked(start, valid_end, last_offset))
        return valid_end if start < valid_end < stop else end

    def _note_valid(self, checked: Checked) -> None:
        known = self._checked
        if checked.start <= known.end and known.start <= checked.end:
            later = max(checked, known, key=lambda one: one.end)
            checked = Checked(min(known.start, checked.start), later.end, later.last_offset)
        self._checked = checked
        if checked.end >= self.valid_from:
            self.valid_from = checked.start

    def check_crc(self, header: BatchHeader) -> None:
        """Raises CorruptBatch if the CRC of the header's batch is wrong."""
        if not crc_ok(header, self.read_at(header.position, header.size), 0):
            raise CorruptBatch(f"{self.path}: {header!r} has a wrong CRC")

    def _corrupt(self, error: CorruptBatch) -> CorruptBatch:
        return CorruptBatch(f"{self.path}: {error.message}", error.code)
