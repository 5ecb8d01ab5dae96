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
        return time.time_ns() // NS_PER_MS


def thread_cpu_ns() -> int:
    """Processor time that the calling thread has used so far."""
    return time.thread_time_ns()
