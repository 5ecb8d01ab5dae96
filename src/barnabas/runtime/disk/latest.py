"""Writes of one file by several threads: one at a time, and the latest wins."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial


class LatestWrite:
    """Orders the writes of a file that is always written as a whole.

    A write that is still queued on a worker must not undo one that was planned later and is already done.
    """

    __slots__ = ("_done", "_lock", "planned")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The number of the write that was planned last.
        self.planned = 0
        self._done = 0

    def plan(self, write: Callable[[], None]) -> Callable[[], None]:
        """The write as a call for any thread; it does nothing if one planned later is done already.

        Must be called on one thread.
        """
        self.planned += 1
        return partial(self._run, self.planned, write)

    def _run(self, number: int, write: Callable[[], None]) -> None:
        with self._lock:
            if number > self._done:
                write()
                self._done = number
