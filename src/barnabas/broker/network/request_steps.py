"""Runs long requests in slices, so that other requests are served in between.

A handler with much work is a generator: it yields after each element, yields a promise to wait for its value
(`awaited`), and returns its response:

    def handle(broker, request, context) -> Steps[DeleteGroupsResponse]:
        for name in request.groups_names:
            ...
            yield
        response = yield from awaited(broker.metadata.send_request(...))
        return DeleteGroupsResponse(...)

The first slice runs immediately, so that short requests have no overhead.  A connection has one request in
progress at a time, which bounds the number of waiting requests.  The startup of a broker runs in steps, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService

T = TypeVar("T")
Item = TypeVar("Item")

Steps: TypeAlias = Generator["Promise[Any] | None", Any, T]

# How long requests may hold the loop at a time.
SLICE_NS = 5_000_000
# Pause before the next slice: sockets and timers are served in between.
PAUSE_NS = 100_000
# This many requests take turns; those after them have not started, and hold only their bytes.
MAX_TURNS = 4
# Elements of a request that the controller and the coordinators decide at a time.
CHUNK_ELEMENTS = 100


def awaited(promise: Promise[T]) -> Generator[Promise[T], T, T]:
    """Waits for the promise: `value = yield from awaited(promise)`."""
    return (yield promise)


def chunks(items: Sequence[Item], size: int = CHUNK_ELEMENTS) -> Iterator[Sequence[Item]]:
    """Splits items into chunks that are decided within a slice."""
    return (items[start : start + size] for start in range(0, len(items), size))


def each(items: Iterable[Item], make: Callable[[Item], T]) -> Steps[list[T]]:
    """Maps the items, with a step for each: `yield from each(names, describe)`."""
    results = []
    for item in items:
        results.append(make(item))
        yield None
    return results


def finished(steps: Steps[T]) -> T:
    """Runs all steps at once and returns their result: for few steps that wait for nothing."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            value: T = done.value
            return value


class _Task(Generic[T]):
    """A generator in progress, and the promise of its result."""

    __slots__ = ("is_cancelled", "promise", "result", "steps")

    def __init__(self, steps: Steps[T]) -> None:
        self.steps = steps
        self.result: Promise[T] = Promise()
        # The promise that the last step has yielded.
        self.promise: Promise[Any] | None = None
        self.is_cancelled = False

    def cancel(self) -> None:
        """The result is no longer needed."""
        self.is_cancelled = True


class RequestWork:
    """What runs in steps on one broker: long requests, and its startup.  Runs on the event loop's thread."""

    def __init__(
        self,
        timers: TimerService,
        now_ns: Callable[[], int],
        slice_ns: int = SLICE_NS,
        pause_ns: int = PAUSE_NS,
    ) -> None:
        self._timers = timers
        self._now_ns = now_ns
        self._slice_ns = slice_ns
        self._pause_ns = pause_ns
        # Requests that take turns, and those that have not started.
        self._turns: deque[_Task[Any]] = deque()
        self._queued: deque[_Task[Any]] = deque()
        self._is_running = False
        # The number of slices so far, for tests.
        self.slices = 0

    @property
    def waiting_count(self) -> int:
        return len(self._turns) + len(self._queued)

    def start(self, steps: Steps[T]) -> tuple[Promise[T], Callable[[], None]]:
        """Runs the steps, the first slice now; returns the promise of the result and how to cancel."""
        task = _Task(steps)
        self._run_slice(task)
        return task.result, task.cancel

    def queue(self, steps: Steps[T]) -> tuple[Promise[T], Callable[[], None]]:
        """Like `start`, but after all requests that have started."""
        task = _Task(steps)
        self._queued.append(task)
        self._set_timer()
        return task.result, task.cancel

    def run_now(self, steps: Steps[T]) -> T | None:
        """Returns the result if one slice is enough; else None, and the steps are closed."""
        until_ns = self._now_ns() + self._slice_ns
        try:
            while self._now_ns() < until_ns:
                next(steps)
        except StopIteration as done:
            value: T = done.value
            return value
        steps.close()
        return None

    def stop(self) -> None:
        """Drops all remaining requests."""
        self._turns.clear()
        self._queued.clear()
        self._timers.cancel(self)

    # Slices

    def _set_timer(self) -> None:
        if not self._is_running:
            self._timers.set(self, self._now_ns() + self._pause_ns, self._next_slice)

    def _next_slice(self) -> None:
        """Runs one slice of the next request."""
        while self._queued and len(self._turns) < MAX_TURNS:
            self._turns.append(self._queued.popleft())
        if self._turns:
            self._run_slice(self._turns.popleft())

    def _run_slice(self, task: _Task[Any], _: object = None) -> None:
        """Runs steps until the slice ends, a promise is pending, or the steps end.

        Also called when that promise is completed or failed; the next step gets its value or error.
        """
        if self._is_running:
            self._turns.append(task)
            return
        self.slices += 1
        self._is_running = True
        until_ns = self._now_ns() + self._slice_ns
        try:
            while not task.is_cancelled:
                last = task.promise
                if last is None:
                    promise = next(task.steps)
                elif last.error is None:
                    promise = task.steps.send(last.value)
                else:
                    promise = task.steps.throw(last.error)
                task.promise = promise
                if promise is not None and not promise.done:
                    run_next = partial(self._run_slice, task)
                    promise.then(run_next, run_next)
                    return
                if self._now_ns() >= until_ns:
                    self._turns.append(task)
                    return
            task.steps.close()
        except StopIteration as done:
            task.result.set(done.value)
        except Exception as error:
            task.result.fail(error)
        finally:
            self._is_running = False
            if self._turns or self._queued:
                self._set_timer()
