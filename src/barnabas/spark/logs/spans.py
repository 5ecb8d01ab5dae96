"""Counting distinct windows in little memory: adjacent windows are kept as one span.  Pure."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime

# A gap without counts ends a span: beyond this number the oldest is dropped.
MAX_SPANS = 10_000


class Spans:
    """Counts each window once, in any order, though windows arrive once per service."""

    def __init__(self) -> None:
        self.windows = 0
        self._starts: list[datetime] = []
        self._ends: list[datetime] = []

    def add(self, start: datetime, end: datetime) -> None:
        starts, ends = self._starts, self._ends
        at = bisect_right(starts, start)
        if at and ends[at - 1] >= end:
            return
        self.windows += 1
        if at and ends[at - 1] == start:
            ends[at - 1] = end
            at -= 1
        else:
            starts.insert(at, start)
            ends.insert(at, end)
        if at + 1 < len(starts) and starts[at + 1] == ends[at]:
            del starts[at + 1], ends[at]
        if len(starts) > MAX_SPANS:
            del starts[0], ends[0]

    def __len__(self) -> int:
        return len(self._starts)
