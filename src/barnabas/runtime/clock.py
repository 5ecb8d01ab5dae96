"""The door to time.  Wall time stamps records and retention; monotonic time drives timers and time-outs."""

from __future__ import annotations

import time
from typing import Protocol

from barnabas.base.units import NS_PER_MS


class Clock(Protocol):
    """What the rest of the code may know of time, in milliseconds and nanoseconds, always integers."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as the operating system believes; it may jump."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds from some start; it never goes back."""
        ...


class SystemClock:
    """The machine's own clocks."""

    __slots__ = ()

    # The system's own function: it is called for every request.
    monotonic_ns = staticmethod(time.monotonic_ns)
    # The same for those who ask for every record; other clocks have milliseconds only.
    wall_ns = staticmethod(time.time_ns)

    def wall_ms(self) -> int:
        return time.time_ns() // NS_PER_MS


def thread_cpu_ns() -> int:
    """Processor time that the calling thread has used so far."""
    return time.thread_time_ns()
