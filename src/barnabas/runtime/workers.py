"""Workers: threads for calls that block, so that the loop never does.

What lives here: a small pool with a bounded queue, and the way home to a loop.  What may not: what the calls
do.  The simulated twin is a part of `world`.

A result is a `concurrent.futures.Future`; its callbacks run on the worker's thread.  `LoopWorkers` brings
results home to a loop instead.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Protocol, TypeVar

T = TypeVar("T")

WORKER_THREADS = 4
"""Enough to keep a disk's queue filled; calls that compute gain nothing from more."""

WAITING_CALLS_MAX = 10_000
"""Calls that may wait for a thread.  More than this means that the disk does not keep up."""


class WorkersBusyError(RuntimeError):
    """The queue is full, or the workers are closed.  Nothing was started: refuse the work, or try later."""


class Workers(Protocol):
    """Where blocking calls run."""

    @property
    def waiting(self) -> int:
        """Calls not started yet: a metric, and a sign to slow down."""
        ...

    def submit(self, call: Callable[[], T], /) -> Future[T]:
        """Run the call soon.  WorkersBusyError when too many wait already, or after `close`."""
        ...

    def close(self) -> None:
        """Run what was submitted, then stop."""
        ...


class _Job:
    """A call and the future of its result, of one type that the queue need not know."""

    __slots__ = ("cancel", "run")

    def __init__(self, call: Callable[[], T], future: Future[T]) -> None:
        self.run = partial(_run, call, future)
        self.cancel = future.cancel


def _run(call: Callable[[], T], future: Future[T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # The one who asked decides what it means, whatever it is.
        future.set_exception(error)
    else:
        future.set_result(result)


class ThreadWorkers:
    """Threads, started when first needed."""

    def __init__(self, threads_max: int = WORKER_THREADS, waiting_max: int = WAITING_CALLS_MAX) -> None:
        self._threads_max = threads_max
        self._waiting_max = waiting_max
        self._jobs: deque[_Job] = deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False
        self._changed = threading.Condition()

    @property
    def waiting(self) -> int:
        return len(self._jobs)

    def submit(self, call: Callable[[], T], /) -> Future[T]:
        future: Future[T] = Future()
        with self._changed:
            _refuse_if_full(len(self._jobs), self._waiting_max, closed=self._closed)
            self._jobs.append(_Job(call, future))
            if len(self._jobs) > self._idle and len(self._threads) < self._threads_max:
                self._start_thread()
            self._changed.notify()
        return future

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _start_thread(self) -> None:
        # A daemon, so that a program that forgets to close still ends.
        thread = threading.Thread(target=self._work, name=f"worker-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (job := self._next_job()) is not None:
            job.run()
            # The next one may be long in coming: keep no result of this one alive until then.
            del job

    def _next_job(self) -> _Job | None:
        with self._changed:
            self._idle += 1
            try:
                while not self._jobs and not self._closed:
                    self._changed.wait()
                return self._jobs.popleft() if self._jobs else None
            finally:
                self._idle -= 1


def _refuse_if_full(waiting: int, waiting_max: int, *, closed: bool) -> None:
    if closed:
        raise WorkersBusyError("the workers are closed: nothing can be started any more")
    if waiting >= waiting_max:
        raise WorkersBusyError(f"{waiting} calls wait for a worker already: slow down, or try again later")


class LoopWorkers:
    """Workers for the owner of a loop: results are told there, through its thread-safe `post`."""

    def __init__(self, workers: Workers, post: Callable[[Callable[[], None]], None]) -> None:
        self._workers = workers
        self._post = post

    def submit(
        self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None], /
    ) -> None:
        """Call `done` on the loop with the result or the error; also when the workers take no more."""
        try:
            future = self._workers.submit(work)
        except WorkersBusyError as error:
            self._post(partial(done, None, error))
        else:
            future.add_done_callback(partial(self._bring_home, done))

    def _bring_home(self, done: Callable[[T | None, BaseException | None], None], future: Future[T]) -> None:
        if not future.cancelled():
            error = future.exception()
            self._post(partial(done, None if error is not None else future.result(), error))
