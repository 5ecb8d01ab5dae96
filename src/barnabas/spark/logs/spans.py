"""Spans of time: how long a window is, and counting distinct windows in little memory.  Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from datetime import datetime

from barnabas.spark.pipeline.definition import PipelineError

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


def seconds(span: str, setting: str = "window") -> float:
    """The length of a span such as `10 seconds`."""
    units = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
    found = re.fullmatch(r"\s*(\d+)\s+([a-z]+?)s?\s*", span)
    if found is None or found[2] not in units:
        raise PipelineError(f"the setting {setting} is {span!r}: give a time such as '10 seconds'")
    return int(found[1]) * units[found[2]]
