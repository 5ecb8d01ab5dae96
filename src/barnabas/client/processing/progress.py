"""How far the work on a partition has come: the offset before which every record is done.  Pure."""

from __future__ import annotations

from collections import deque


class PartitionProgress:
    """Records begin in the order of their offsets and end in any order."""

    def __init__(self) -> None:
        self._open: deque[int] = deque()
        self._done: set[int] = set()
        # The offset to commit: all records before it are done.  None while no record is done.
        self.position: int | None = None

    @property
    def in_progress(self) -> int:
        return len(self._open) - len(self._done)

    def begin(self, offset: int) -> None:
        self._open.append(offset)

    def end(self, offset: int) -> None:
        self._done.add(offset)
        while self._open and self._open[0] in self._done:
            first = self._open.popleft()
            self._done.discard(first)
            self.position = first + 1
