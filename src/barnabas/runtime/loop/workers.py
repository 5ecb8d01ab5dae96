"""Workers: threads for blocking calls, so that the loop never blocks.

Contains a small pool with a bounded queue, and the delivery of results to a loop.  The simulated twin is in
`simulated.world`.

A worker thread should do as little as possible around a call: it and the loop take turns to run Python, and
each switch costs more than the code.  So there is a bare queue, and no future per call.
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
Completion = Callable[[T | None, BaseException | None], None]
"""Called with the result of a call, or its error."""

WORKER_THREADS = 4
"""Enough to keep a disk's queue full; CPU-bound calls gain nothing from more."""

WAITING_CALLS_MAX = 10_000
"""Calls that may wait for a thread.  More than this means that the disk does not keep up."""


class WorkersBusyError(RuntimeError):
    """The queue is full, or the workers are closed.  Nothing was started: reject the work, or try later."""


class ThreadWorkers:
    """Threads, started on demand.  Only one thread, the loop's, submits and closes."""

    def __init__(self, threads_max: int = WORKER_THREADS, waiting_max: int = WAITING_CALLS_MAX) -> None:
        self._threads_max = threads_max
        self._waiting_max = waiting_max
        # None ends the thread that receives it.
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        # One item for each call that has ended since the last one was submitted.
        self._ended: deque[None] = deque()
        self._unended = 0
        self._closed = False

    @property
    def waiting(self) -> int:
        """Calls that have not started yet: a metric, and a sign to slow down."""
        return self._calls.qsize()

    def submit(self, call: Callable[[], T], done: Completion[T], /) -> None:
        """Run the call soon; `done` is called with its result on the worker's thread.

        Raises WorkersBusyError when too many calls are waiting, or after `close`.
        """
        if self._closed:
            raise WorkersBusyError("the workers are closed: nothing can be started any more")
        if (waiting := self._calls.qsize()) >= self._waiting_max:
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
        self._calls.put(partial(_run, call, done))

    def close(self) -> None:
        """Run all submitted calls, then stop."""
        self._closed = True
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _start_thread(self) -> None:
        # A daemon thread, so that a program that does not close it still exits.
        thread = threading.Thread(target=self._work, name=f"worker-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except Exception:
                logger.exception("the result of a call could not be delivered; its caller waits in vain")
            # The next one may take long to arrive: keep no reference to this one until then.
            del call
            self._ended.append(None)


def _run(call: Callable[[], T], done: Completion[T]) -> None:
    try:
        result = call()
    except BaseException as error:  # The caller decides what any error means.
        done(None, error)
    else:
        done(result, None)


class LoopWorkers:
    """Workers for the owner of a loop: results are delivered there, through its thread-safe `post`."""

    def __init__(self, workers: ThreadWorkers, post: Callable[[Callable[[], None]], None]) -> None:
        self._workers = workers
        self._post = post

    def submit(self, work: Callable[[], T], done: Completion[T], /) -> None:
        """Call `done` on the loop with the result or the error, even if the workers are busy or closed."""

        def deliver(result: T | None, error: BaseException | None) -> None:
            self._post(partial(done, result, error))

        try:
            self._workers.submit(work, deliver)
        except WorkersBusyError as error:
            self._post(partial(done, None, error))
