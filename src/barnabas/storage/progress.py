"""How far the opening of logs has come: reported when it takes long, and the way to end it early.

What lives here: who looks over the shoulder of recovery.  What may not: recovery.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.runtime.clock import Clock

logger = logging.getLogger(__name__)

# How often a line says how far it is.
REPORT_INTERVAL_NS = 10_000_000_000

Watch = Callable[[str, int, int], None]
"""Told, every some hundred kilobytes, which file is being read, up to where, and its size.

What it raises ends the work, as a crash would: the next start begins it anew.
"""


def unwatched(path: str, position: int, size: int) -> None:
    """Nobody looks."""


class LoadingStopped(Exception):
    """The broker is to stop before its logs are open."""


class LoadingWatch:
    """Of all logs of a broker; what is opened runs on workers, one at a time, and `stop` is for the loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_report_ns = clock.monotonic_ns() + REPORT_INTERVAL_NS
        self.is_stopped = False
        # Of the directory that is just being opened.
        self.opened = 0
        self.total = 0

    def stop(self) -> None:
        """End what is under way, soon."""
        self.is_stopped = True

    def begin(self, total: int) -> None:
        """A directory with so many logs."""
        self.opened, self.total = 0, total

    def check(self) -> None:
        if self.is_stopped:
            raise LoadingStopped("the broker stops before its logs are open")

    def reading(self, path: str, position: int, size: int) -> None:
        """A `Watch`."""
        self.check()
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._next_report_ns:
            self._next_report_ns = now_ns + REPORT_INTERVAL_NS
            percent = 100 * position // size if size else 100
            logger.info("recovery: %d of %d logs are open; %s: %d %%", self.opened, self.total, path, percent)
