"""One growing file: reading new lines, and detecting truncation.  Renaming belongs in `files`."""

from __future__ import annotations

import logging
import os

from barnabas.collect.lines import LineCutter
from barnabas.collect.positions import HEAD_BYTES, Position, head_of

logger = logging.getLogger(__name__)

CHUNK_BYTES = 256 * 1024
# This many of the last bytes read must still be there at the next read: a file that was truncated and has
# grown past our position since is not shorter, but different.
TAIL_BYTES = 256


class TruncatedError(Exception):
    """The bytes that were read last are no longer there."""


class Follower:
    """An open file with its read and acknowledged positions."""

    def __init__(self, path: str, identity: tuple[int, int], place: int, max_line_bytes: int) -> None:
        self.path = path
        # The last name that matched a pattern; `path` may be its name after a rotation.
        self.matched_path = path
        self.identity = identity
        self.place = place
        # Since when no pattern matches it: renamed or deleted, so it will soon stop growing.
        self.renamed_since_s: float | None = None
        self.is_left = False
        self.last_growth_s = 0.0
        self.written_offset = 0
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._cutter = LineCutter(max_line_bytes)
        self._read_offset = 0
        self._head = head_of(self._descriptor)
        self._tail = b""

    @property
    def offset(self) -> int:
        """The start of the first line that was not returned yet."""
        return self._read_offset - self._cutter.waiting_bytes

    def is_same_as(self, position: Position) -> bool:
        """Whether it is the file whose position was saved, and not another one with its inode."""
        length, head = head_of(self._descriptor, position.head_length)
        return (length, head) == (position.head_length, position.head)

    def start_at(self, offset: int) -> None:
        if offset > os.fstat(self._descriptor).st_size:
            logger.warning("%s is shorter than its saved position: reading it from its start", self.path)
            offset = 0
        self._read_offset = self.written_offset = offset
        start = max(0, offset - TAIL_BYTES)
        self._tail = os.pread(self._descriptor, offset - start, start)

    def start_at_end(self) -> None:
        """Start after the last complete line: an incomplete one will be completed soon."""
        size = os.fstat(self._descriptor).st_size
        tail = os.pread(self._descriptor, CHUNK_BYTES, max(0, size - CHUNK_BYTES))
        self.start_at(size - (len(tail) - tail.rfind(b"\n") - 1))

    def read(self) -> list[bytes] | None:
        """Return new lines; None if nothing was added.  Raises TruncatedError if it must be read from the
        start."""
        known = len(self._tail)
        data = os.pread(self._descriptor, known + CHUNK_BYTES, self._read_offset - known)
        if not data.startswith(self._tail):
            raise TruncatedError
        if len(data) == known:
            return None
        self._read_offset += len(data) - known
        self._tail = data[-TAIL_BYTES:]
        if self._head[0] < HEAD_BYTES:
            self._head = head_of(self._descriptor)
        return self._cutter.cut(data[known:])

    def start_again(self, place: int) -> None:
        """Read from the start, under another number: acknowledgements of the old content no longer apply."""
        self.place = place
        self._cutter.forget()
        self._read_offset = self.written_offset = 0
        self._tail = b""
        self._head = head_of(self._descriptor)

    def end(self) -> list[bytes]:
        """Return the last line of a file that does not end with a line end."""
        return self._cutter.end()

    def position(self) -> Position:
        return Position(self.matched_path, *self.identity, self.written_offset, *self._head)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
