"""The segments of a log, sorted by base offset; releases those that were not read recently."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import overload

from barnabas.storage.segment.segment import Segment

# The number of inactive segments of a log that stay open for readers; the least recently read is released.
OPEN_SEGMENTS = 8


class Segments(Sequence[Segment]):
    """Sorted, and never empty once the log is open; the last one is active."""

    __slots__ = ("_base_offsets", "_recently_read", "_segments", "last")

    last: Segment

    def __init__(self) -> None:
        self._base_offsets: list[int] = []
        self._segments: list[Segment] = []
        self._recently_read: OrderedDict[int, Segment] = OrderedDict()

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @overload
    def __getitem__(self, index: int) -> Segment: ...

    @overload
    def __getitem__(self, index: slice) -> list[Segment]: ...

    def __getitem__(self, index: int | slice) -> Segment | list[Segment]:
        return self._segments[index]

    @property
    def base_offsets(self) -> Sequence[int]:
        return self._base_offsets

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def add(self, segment: Segment) -> None:
        """Insert a segment; one with the same base offset is replaced."""
        at = bisect_left(self._base_offsets, segment.base_offset)
        if at < len(self._base_offsets) and self._base_offsets[at] == segment.base_offset:
            self._segments[at] = segment
            self._recently_read.pop(segment.base_offset, None)
        else:
            self._base_offsets.insert(at, segment.base_offset)
            self._segments.insert(at, segment)
        self.last = self._segments[-1]

    def remove(self, segment: Segment) -> None:
        """Remove a segment; does nothing if it was removed or replaced already."""
        at = bisect_left(self._base_offsets, segment.base_offset)
        if at < len(self._segments) and self._segments[at] is segment:
            del self._base_offsets[at]
            del self._segments[at]
            self._recently_read.pop(segment.base_offset, None)
            if self._segments:
                self.last = self._segments[-1]

    def clear(self) -> None:
        self._base_offsets.clear()
        self._segments.clear()
        self._recently_read.clear()

    def contains(self, segment: Segment) -> bool:
        at = bisect_left(self._base_offsets, segment.base_offset)
        return at < len(self._segments) and self._segments[at] is segment

    def floor(self, offset: int) -> Segment | None:
        """The segment that contains the offset, if any."""
        at = bisect_right(self._base_offsets, offset) - 1
        return self._segments[at] if at >= 0 else None

    def after(self, segment: Segment) -> Segment | None:
        at = bisect_right(self._base_offsets, segment.base_offset)
        return self._segments[at] if at < len(self._segments) else None

    def between(self, first: int, end: int) -> list[Segment]:
        """The segments with offsets from `first` up to, but not including, `end`."""
        start = max(0, bisect_right(self._base_offsets, first) - 1)
        return self._segments[start : bisect_left(self._base_offsets, end)]

    def reading(self, segment: Segment) -> None:
        """Called on a read: keeps this segment open and may release another one."""
        if segment is self._segments[-1]:
            return
        recent = self._recently_read
        recent[segment.base_offset] = segment
        recent.move_to_end(segment.base_offset)
        if len(recent) > OPEN_SEGMENTS:
            _, oldest = recent.popitem(last=False)
            if oldest is not self._segments[-1]:
                oldest.release()
