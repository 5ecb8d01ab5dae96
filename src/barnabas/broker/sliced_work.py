"""Runs long work in order and in slices, so that clients are served in between.

A request may create ten thousand partitions, each of which costs a fraction of a millisecond: done at once,
no other client would be served for seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum

from barnabas.runtime.loop.timers import TimerService

# How long a slice may hold the loop.  The first slice runs before `add` returns.
SLICE_NS = 8_000_000
# Pause before the next slice: long enough for sockets and timers to be served.
PAUSE_NS = 1_000_000


class Wait(Enum):
    """The type of WAIT."""

    WAIT = 0


WAIT = Wait.WAIT
Step = Wait | None


class SlicedWork:
    """Runs steps in the order in which they were added, on the event loop's thread."""

    def __init__(
        self,
        timers: TimerService,
        now_ns: Callable[[], int],
        after_slice: Callable[[], None],
        slice_ns: int = SLICE_NS,
        pause_ns: int = PAUSE_NS,
    ) -> None:
        self._timers = timers
        self._now_ns = now_ns
        self._after_slice = after_slice
        self._slice_ns = slice_ns
        self._pause_ns = pause_ns
        self._waiting: deque[Iterator[Step]] = deque()
        self._is_running = False

    @property
    def is_done(self) -> bool:
        return not self._waiting

    def add(self, steps: Iterator[Step]) -> None:
        """Adds steps, each of which ends with a yield; an exception ends these steps and reaches the loop.

        A step that yields WAIT cannot go on yet: it, and all behind it, are tried again after a pause.
        """
        self._waiting.append(steps)
        if len(self._waiting) == 1:
            self._next_slice()

    def stop(self) -> None:
        """Drops all remaining steps."""
        self._waiting.clear()
        self._timers.cancel(self)

    def _next_slice(self) -> None:
        if self._is_running:
            return  # a step has added more; its slice continues with it
        until_ns = self._now_ns() + self._slice_ns
        self._is_running = True
        try:
            while self._waiting and self._now_ns() < until_ns:
                steps = self._waiting[0]
                try:
                    if next(steps) is WAIT:
                        break
                except BaseException as error:
                    # These steps have ended, unless they have called `stop`.
                    if self._waiting and self._waiting[0] is steps:
                        self._waiting.popleft()
                    if not isinstance(error, StopIteration):
                        raise
        finally:
            self._is_running = False
            if self._waiting:
                self._timers.set(self, self._now_ns() + self._pause_ns, self._next_slice)
            self._after_slice()
