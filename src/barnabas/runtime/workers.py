"""Workers: threads for calls that block, so that the loop never does.

What lives here: a small pool with a bounded queue, its simulated twin, the way home to a loop, and sharing of
one sync by many who ask for it.  What may not: what the calls do.

A result is a `concurrent.futures.Future`; its callbacks run on the worker's thread (in the simulation: in a
step of the scheduler).  `LoopWorkers` brings results home to a loop instead.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import partial
from typing import Protocol, TypeVar

from barnabas.runtime.chance import Random

T = TypeVar("T")

WORKER_THREADS = 4
"""Enough to keep a disk's queue filled; calls that compute gain nothing from more."""

WAITING_CALLS_MAX = 10_000
"""Calls that may wait for a thread.  More than this means that the disk does not keep up."""

SHARERS_MAX = 100_000
"""Callers that may wait for one sync."""


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


class SimulatedWorkers:
    """No threads: each call runs in a step of a scheduler, which of those waiting is drawn.

    `defer` takes a step to run later; the simulated world chooses when.
    """

    def __init__(
        self,
        random: Random,
        defer: Callable[[Callable[[], None]], None],
        waiting_max: int = WAITING_CALLS_MAX,
        threads_max: int = WORKER_THREADS,
    ) -> None:
        self._random = random
        self._defer = defer
        self._waiting_max = waiting_max
        self._threads_max = threads_max
        self._jobs: list[_Job] = []
        self._closed = False

    @property
    def waiting(self) -> int:
        return len(self._jobs)

    def submit(self, call: Callable[[], T], /) -> Future[T]:
        _refuse_if_full(len(self._jobs), self._waiting_max, closed=self._closed)
        future: Future[T] = Future()
        self._jobs.append(_Job(call, future))
        self._defer(self._step)
        return future

    def close(self) -> None:
        self._closed = True
        while self._jobs:
            self._step()

    def drop(self) -> None:
        """The process is gone: nothing of what waits will run."""
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            job.cancel()

    def _step(self) -> None:
        """Run one of the calls that real threads could have taken by now."""
        if self._jobs:
            candidates = min(len(self._jobs), self._threads_max)
            self._jobs.pop(self._random.integer(0, candidates - 1)).run()


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


class _Round:
    """One sync to come, and all who wait for it."""

    __slots__ = ("call", "sharers")

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.sharers: list[Future[None]] = []


class SyncGroup:
    """Group commit: all who ask for the same thing while a sync of it runs share the next one.

    A sync that runs already may have started before the caller's bytes were written, so it counts for nobody
    who asks now.  Different keys do not wait for each other.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._next: dict[Hashable, _Round] = {}
        self._running: set[Hashable] = set()
        self._lock = threading.Lock()

    def sync(self, key: Hashable, call: Callable[[], None]) -> Future[None]:
        """Done when a `call` that started after now has returned; of the sharers' calls the last is made."""
        future: Future[None] = Future()
        with self._lock:
            round_ = self._next.setdefault(key, _Round(call))
            if len(round_.sharers) >= SHARERS_MAX:
                raise WorkersBusyError(f"{SHARERS_MAX} wait for this sync already: slow down")
            round_.call = call
            round_.sharers.append(future)
            if key in self._running:
                return future
            self._running.add(key)
        try:
            self._workers.submit(partial(self._run_round, key))
        except WorkersBusyError as error:
            self._give_up(key, error)
        return future

    def _run_round(self, key: Hashable) -> None:
        run_next_here = True
        while run_next_here:
            with self._lock:
                round_ = self._next.pop(key)
            error: BaseException | None = None
            try:
                round_.call()
            except BaseException as failure:  # All who share the sync share its failure.
                error = failure
            # Before anyone hears of this round the next one starts, so that the disk does not idle.
            run_next_here = not self._start_next(key)
            _settle(round_, error)

    def _start_next(self, key: Hashable) -> bool:
        """False when a round is wanted but the workers take no more: then it runs on the thread we are on."""
        with self._lock:
            if key not in self._next:
                self._running.discard(key)
                return True
        try:
            self._workers.submit(partial(self._run_round, key))
        except WorkersBusyError:
            return False
        return True

    def _give_up(self, key: Hashable, error: BaseException) -> None:
        with self._lock:
            self._running.discard(key)
            round_ = self._next.pop(key)
        _settle(round_, error)


def _settle(round_: _Round, error: BaseException | None) -> None:
    for future in round_.sharers:
        if future.set_running_or_notify_cancel():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
