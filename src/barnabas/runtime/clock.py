"""The clock interface.  Wall time is for timestamps and retention; monotonic time is for timers and
timeouts."""

from __future__ import annotations

import time
from typing import Protocol

from barnabas.base.units import NS_PER_MS


class Clock(Protocol):
    """Time in milliseconds and nanoseconds, always integers."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 according to the operating system; it may jump."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds since an arbitrary start; it never goes back."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    # The system's own function: it is called for every request.
    monotonic_ns = staticmethod(time.monotonic_ns)
    # Nanoseconds, for callers that read the time for every record; other clocks have milliseconds only.
    wall_ns = staticmethod(time.time_ns)

    def wall_ms(self) -> int:
        return self.wall_ns() // NS_PER_MS


class ShiftedClock:
    """The machine's clocks, moved on by offsets that only grow: for tests of what time does."""

    __slots__ = ("monotonic_offset_ns", "wall_offset_ms")

    # The system's own functions: a test that freezes the time (freezegun replaces those of `time`) must not
    # stop the brokers in its process.
    _monotonic_ns = staticmethod(time.monotonic_ns)
    _wall_ns = staticmethod(time.time_ns)

    def __init__(self) -> None:
        self.wall_offset_ms = 0
        self.monotonic_offset_ns = 0

    def wall_ms(self) -> int:
        return self._wall_ns() // NS_PER_MS + self.wall_offset_ms

    def monotonic_ns(self) -> int:
        return self._monotonic_ns() + self.monotonic_offset_ns


def thread_cpu_ns() -> int:
    """Processor time that the calling thread has used so far."""
    return time.thread_time_ns()
