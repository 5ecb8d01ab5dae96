"""Reads files in chunks: a dump of a large log needs no more memory than its largest batch."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from barnabas.batch.view import LOG_OVERHEAD, SMALLEST_LENGTH
from barnabas.cli.framework.exits import CommandError
from barnabas.runtime.disk.disk import File

# The size of a read; a larger batch is read on its own.
CHUNK_BYTES = 1 << 20
# Base offset, length, leader epoch and magic: fewer bytes cannot hold a batch.
HEADER_UP_TO_MAGIC = 17
# Index entries per read.
BLOCK_ENTRIES = 4096

_LENGTH = Struct(">i")


class LogReader:
    """Iterates over the batches, in any format, of a .log or .checkpoint file."""

    def __init__(self, file: File, name: str) -> None:
        self._file = file
        self._name = name
        self.size = file.size
        self._chunk = memoryview(b"")
        self._chunk_start = 0

    def batches(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, memoryview]]:
        """Position and bytes of every complete batch; an incomplete one at the end is skipped."""
        end = self.size if end is None else min(end, self.size)
        position = start
        while position < end - HEADER_UP_TO_MAGIC:
            (length,) = _LENGTH.unpack_from(self._bytes(position, HEADER_UP_TO_MAGIC), 8)
            if length < SMALLEST_LENGTH:
                raise CommandError(
                    f"Found record size {length} smaller than minimum record overhead ({SMALLEST_LENGTH}) "
                    f"in file {self._name}."
                )
            size = LOG_OVERHEAD + length
            if position > end - size:
                return
            yield position, self._bytes(position, size)
            position += size

    def _bytes(self, position: int, size: int) -> memoryview:
        """`size` bytes at `position`, both known to lie within the file."""
        offset = position - self._chunk_start
        if offset < 0 or offset + size > len(self._chunk):
            wanted = min(max(size, CHUNK_BYTES), self.size - position)
            self._chunk = memoryview(self._file.read_at(position, wanted))
            self._chunk_start = position
            offset = 0
            if len(self._chunk) < size:
                raise CommandError(f"{self._name}: the file was truncated while it was read")
        return self._chunk[offset : offset + size]


class Entries:
    """The fixed-width entries of an index file, read in blocks; a torn entry is skipped."""

    def __init__(self, file: File, entry: Struct) -> None:
        self._file = file
        self._entry = entry
        self._count = file.size // entry.size
        self._block = b""
        self._block_first = 0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> tuple[int, ...]:
        if not 0 <= number < self._count:
            raise IndexError(number)
        size = self._entry.size
        within = (number - self._block_first) * size
        if not 0 <= within < len(self._block):
            self._block_first = number - number % BLOCK_ENTRIES
            self._block = self._file.read_at(self._block_first * size, BLOCK_ENTRIES * size)
            within = (number - self._block_first) * size
        return self._entry.unpack_from(self._block, within)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return (self[number] for number in range(self._count))
