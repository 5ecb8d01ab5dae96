"""Which chunks of a source are acknowledged, without gaps.  Pure."""

from __future__ import annotations

from collections import deque


class Chunk:
    """Lines that were sent together; `position` is the source's position after them."""

    __slots__ = ("is_written", "position")

    def __init__(self, position: int) -> None:
        self.position = position
        self.is_written = False


class Progress:
    """The position up to which everything is acknowledged, in whatever order acknowledgements arrive."""

    def __init__(self, position: int) -> None:
        self.written = position
        self._sent: deque[Chunk] = deque()

    @property
    def is_all_written(self) -> bool:
        return not self._sent

    def send(self, position: int) -> Chunk:
        chunk = Chunk(position)
        self._sent.append(chunk)
        return chunk

    def acknowledge(self, chunk: Chunk) -> bool:
        """Mark a chunk as written; returns whether the written position moved."""
        chunk.is_written = True
        before = self.written
        while self._sent and self._sent[0].is_written:
            self.written = self._sent.popleft().position
        return self.written != before
