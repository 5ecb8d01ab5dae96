"""Axes: plain numbers, and true times with dates.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MOST_TIMES = 8
_S, _M, _H, _D = 1, 60, 3600, 86400
STEPS_S = (
    _S, 2 * _S, 5 * _S, 10 * _S, 30 * _S, _M, 2 * _M, 5 * _M, 10 * _M, 30 * _M, _H, 2 * _H, 3 * _H,
    6 * _H, 12 * _H, _D, 2 * _D, 7 * _D, 14 * _D, 30 * _D, 91 * _D, 182 * _D, 365 * _D, 730 * _D,
    1825 * _D, 3650 * _D,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis, from 0 to 1, and what stands there."""

    place: float
    label: str


def numbers(most: float, count: int = 4) -> list[Tick]:
    """Ticks from 0 to a round number that is not below the greatest value."""
    raw = max(most, 1.0) / count
    scale = 10.0 ** (len(str(int(raw))) - 1)
    step = next(size * scale for size in (1, 2, 2.5, 5, 10) if size * scale >= raw and size * scale % 1 == 0)
    ticks = int(-(-max(most, 1.0) // step))
    return [Tick(number / ticks, f"{int(number * step):,}") for number in range(ticks + 1)]


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """From the begin of the first window to the end of the last one."""

    start: datetime
    end: datetime

    def place(self, time: datetime) -> float:
        return (time - self.start) / (self.end - self.start)

    def ticks(self) -> list[Tick]:
        """At round times; the date stands at the first one, and where it changes."""
        length_s = (self.end - self.start).total_seconds()
        step_s = next((step for step in STEPS_S if length_s / step <= MOST_TIMES), STEPS_S[-1])
        at_s = -(-self.start.timestamp() // step_s) * step_s
        found: list[Tick] = []
        date = None
        while at_s < self.end.timestamp():
            time = datetime.fromtimestamp(at_s, UTC)
            found.append(Tick(self.place(time), _label(time, step_s, time.date() != date)))
            date = time.date()
            at_s += step_s
        return found


def _label(time: datetime, step_s: float, is_new_day: bool) -> str:
    date = f"{time.day} {time:%b %Y}"
    if step_s >= _D:
        return date
    clock = f"{time:%H:%M:%S}" if step_s < _M else f"{time:%H:%M}"
    return f"{clock}\n{date}" if is_new_day else clock


def main_part(times: Sequence[tuple[datetime, datetime, int]]) -> tuple[datetime, datetime] | None:
    """Where the most lines are, of windows (begin, end, lines): stray times, such as those of a wrong clock,
    are far from the others and few."""
    if not times:
        return None
    ordered = sorted(times)
    parts: list[list[tuple[datetime, datetime, int]]] = [[ordered[0]]]
    gap = _widest_gap(ordered)
    for window in ordered[1:]:
        if window[0] - parts[-1][-1][1] > gap:
            parts.append([])
        parts[-1].append(window)
    total = sum(lines for _, _, lines in ordered)
    large = [part for part in parts if sum(lines for _, _, lines in part) * 50 >= total]
    return large[0][0][0], large[-1][-1][1]


def _widest_gap(ordered: Sequence[tuple[datetime, datetime, int]]) -> timedelta:
    """Twice what the windows themselves cover, and at least a day: a quiet night is none."""
    covered = sum((end - start for start, end, _ in ordered), timedelta())
    return max(2 * covered, timedelta(days=1))
