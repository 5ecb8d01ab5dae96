"""Writes of one thing by several threads: one at a time, and the newest stays.

What lives here: the order of such writes.  What may not: what is written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial


class LatestWrite:
    """Orders the writes of a file that is always written as a whole.

    A write that a worker has not come to yet must not undo one that was asked for later and is done.
    """

    __slots__ = ("_asked", "_done", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = 0
        self._done = 0

    def plan(self, write: Callable[[], None]) -> Callable[[], None]:
        """The write as a call for any thread; it does nothing if one planned later is done already.

        Plans are made on one thread.
        """
        self._asked += 1
        return partial(self._run, self._asked, write)

    def _run(self, number: int, write: Callable[[], None]) -> None:
        with self._lock:
            if number > self._done:
                write()
                self._done = number
