"""The progress of opening logs: logged when it takes long, with a way to stop it early."""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.runtime.clock import Clock

logger = logging.getLogger(__name__)

# The interval of progress log lines.
REPORT_INTERVAL_NS = 10_000_000_000

Watch = Callable[[str, int, int], None]
"""Called every few hundred kilobytes with the file being read, the position and the file size.

An exception it raises ends the recovery, as a crash would: the next start begins it again.
"""


def unwatched(path: str, position: int, size: int) -> None:
    """Ignores the progress."""


class LoadingStopped(Exception):
    """The broker shuts down before its logs are open."""


class LoadingWatch:
    """The progress of all logs of a broker; workers report, one at a time, and the loop calls `stop`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_report_ns = clock.monotonic_ns() + REPORT_INTERVAL_NS
        self.is_stopped = False
        # Counts for the directory that is being opened.
        self.opened = 0
        self.total = 0

    def stop(self) -> None:
        """Stop the loading soon."""
        self.is_stopped = True

    def begin(self, total: int) -> None:
        """Start counting for a directory with this many logs."""
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
