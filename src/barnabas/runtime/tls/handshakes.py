"""Whose handshake is computed next: each takes milliseconds of arithmetic, and strangers ask for them.

Those with which this node connects to others come before those of whoever connects to it: a flood of them
must not part the cluster.  Each connection has one step here at most, so the queue is as long as the
connections are many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from barnabas.runtime.loop.executor import WorkerPool

# Handshakes that workers do at the same time: the others are for the disk.
CONCURRENT_HANDSHAKES = 2

Step = Callable[[], object]
Done = Callable[[object, BaseException | None], None]


class HandshakeTask(NamedTuple):
    """A step of a handshake that waits for its turn."""

    step: Step
    done: Done
    is_wanted: Callable[[], bool]


class Handshakes:
    """Runs steps of handshakes, in turn, on a few workers; without workers at once.

    A step that is not wanted any more when its turn comes, as its connection is closed, is not computed.
    """

    def __init__(self, workers: WorkerPool | None) -> None:
        self._workers = workers
        self._urgent: deque[HandshakeTask] = deque()
        self._waiting: deque[HandshakeTask] = deque()
        self._running = 0

    def submit(self, task: HandshakeTask, *, is_urgent: bool = False) -> None:
        (self._urgent if is_urgent else self._waiting).append(task)
        self._next()

    def _next(self) -> None:
        while (self._urgent or self._waiting) and self._running < CONCURRENT_HANDSHAKES:
            task = (self._urgent or self._waiting).popleft()
            if not task.is_wanted():
                continue
            if self._workers is None:
                _run_here(task.step, task.done)
                continue
            self._running += 1
            self._workers.submit(task.step, partial(self._done, task.done))

    def _done(self, done: Done, result: object, error: BaseException | None) -> None:
        self._running -= 1
        done(result, error)
        self._next()


def _run_here(step: Step, done: Done) -> None:
    try:
        result = step()
    except Exception as error:
        done(None, error)
    else:
        done(result, None)
