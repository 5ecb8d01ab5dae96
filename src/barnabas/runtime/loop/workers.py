"""Workers: threads for calls that block, so that the loop never does.

What lives here: a small pool with a bounded queue, and the way home to a loop.  What may not: what the calls
do.  The simulated twin is a part of `world`.

The less a worker's thread does around a call the better: it and the loop take turns to run Python, and each
turn costs more than the code.  So there is a bare queue, and no future for each call.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")
Told = Callable[[T | None, BaseException | None], None]
"""Hears how a call ended: its result, or its error."""

WORKER_THREADS = 4
"""Enough to keep a disk's queue filled; calls that compute gain nothing from more."""

WAITING_CALLS_MAX = 10_000
"""Calls that may wait for a thread.  More than this means that the disk does not keep up."""


class WorkersBusyError(RuntimeError):
    """The queue is full, or the workers are closed.  Nothing was started: refuse the work, or try later."""


class ThreadWorkers:
    """Threads, started when first needed.  One thread submits and closes: the loop's."""

    def __init__(self, threads_max: int = WORKER_THREADS, waiting_max: int = WAITING_CALLS_MAX) -> None:
        self._threads_max = threads_max
        self._waiting_max = waiting_max
        # None ends the thread that gets it.
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        # One item for each call that has ended since the last one was submitted.
        self._ended: deque[None] = deque()
        self._unended = 0
        self._closed = False

    @property
    def waiting(self) -> int:
        """Calls not started yet: a metric, and a sign to slow down."""
        return self._jobs.qsize()

    def submit(self, call: Callable[[], T], told: Told[T], /) -> None:
        """Run the call soon; `told` hears on the worker's thread how it ended.

        WorkersBusyError when too many wait already, or after `close`.
        """
        if self._closed:
            raise WorkersBusyError("the workers are closed: nothing can be started any more")
        if (waiting := self._jobs.qsize()) >= self._waiting_max:
            raise WorkersBusyError(
                f"{waiting} calls wait for a worker already: slow down, or try again later"
            )
        ended = self._ended
        while ended:
            ended.pop()
            self._unended -= 1
        self._unended += 1
        if self._unended > len(self._threads) < self._threads_max:
            self._start_thread()
        self._jobs.put(partial(_run, call, told))

    def close(self) -> None:
        """Run what was submitted, then stop."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _start_thread(self) -> None:
        # A daemon, so that a program that forgets to close still ends.
        thread = threading.Thread(target=self._work, name=f"worker-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:
                logger.exception("a call's end could not be told; whoever waits for it waits in vain")
            # The next one may be long in coming: keep nothing of this one alive until then.
            del job
            self._ended.append(None)


def _run(call: Callable[[], T], told: Told[T]) -> None:
    try:
        result = call()
    except BaseException as error:  # The one who asked decides what it means, whatever it is.
        told(None, error)
    else:
        told(result, None)


class LoopWorkers:
    """Workers for the owner of a loop: results are told there, through its thread-safe `post`."""

    def __init__(self, workers: ThreadWorkers, post: Callable[[Callable[[], None]], None]) -> None:
        self._workers = workers
        self._post = post

    def submit(self, work: Callable[[], T], done: Told[T], /) -> None:
        """Call `done` on the loop with the result or the error; also when the workers take no more."""

        def bring_home(result: T | None, error: BaseException | None) -> None:
            self._post(partial(done, result, error))

        try:
            self._workers.submit(work, bring_home)
        except WorkersBusyError as error:
            self._post(partial(done, None, error))
