"""Requests that are long work, done a slice at a time, so that everybody else is served in between.

What lives here: running the steps of handlers.  What may not: what the steps do, and the bytes of requests.

A handler that may have much to do is a generator: it yields after each element it has looked at, yields a
`Later` to wait for its value (`awaited`), and returns its answer:

    def handle(broker, request, context) -> Steps[DeleteGroupsResponse]:
        for name in request.groups_names:
            ...
            yield
        response = yield from awaited(broker.metadata.ask(...))
        return DeleteGroupsResponse(...)

What is done within the first slice is done at once: short requests cost what they cost without this.  One
request of a connection is in progress at a time, so no more wait here than there are connections.
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
# Until the next slice: sockets and timers are served in between.
PAUSE_NS = 100_000
# So many requests take turns; those behind them have not begun, and hold no more than their bytes.
MAX_TURNS = 4
# The controller and the coordinators decide about so many elements of a request at a time.
CHUNK_ELEMENTS = 100


def awaited(later: Promise[T]) -> Generator[Promise[T], T, T]:
    """Its value, when it is there: `value = yield from awaited(later)`."""
    return (yield later)


def chunks(items: Sequence[Item], size: int = CHUNK_ELEMENTS) -> Iterator[Sequence[Item]]:
    """The same in parts that are decided within a slice."""
    return (items[start : start + size] for start in range(0, len(items), size))


def each(items: Iterable[Item], make: Callable[[Item], T]) -> Steps[list[T]]:
    """What `make` gives for each of them, a step for each: `yield from each(names, describe)`."""
    made = []
    for item in items:
        made.append(make(item))
        yield None
    return made


def finished(steps: Steps[T]) -> T:
    """What they return, all of them taken at once: for steps that wait for nothing and are few."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            value: T = done.value
            return value


class _Task(Generic[T]):
    """Steps on their way, and who waits for what they return."""

    __slots__ = ("error", "is_cancelled", "result", "steps", "value")

    def __init__(self, steps: Steps[T]) -> None:
        self.steps = steps
        self.result: Promise[T] = Promise()
        # What a promise that was waited for has brought.
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_cancelled = False

    def cancel(self) -> None:
        """Nobody wants the result any more."""
        self.is_cancelled = True

    def take(self, value: object) -> None:
        self.value = value

    def take_error(self, error: BaseException) -> None:
        self.error = error

    def resume(self) -> Promise[Any] | None:
        """One step; StopIteration brings the result."""
        if self.error is not None:
            error, self.error = self.error, None
            return self.steps.throw(error)
        value, self.value = self.value, None
        return self.steps.send(value)


class RequestWork:
    """The requests of one broker that are under way in steps.  For the loop's thread."""

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
        # Those that take turns come first.
        self._turns: deque[_Task[Any]] = deque()
        self._behind: deque[_Task[Any]] = deque()
        self._is_at_work = False
        # For whoever watches the pace.
        self.slices = 0

    @property
    def waiting_count(self) -> int:
        return len(self._turns) + len(self._behind)

    def start(self, steps: Steps[T]) -> tuple[Promise[T], Callable[[], None]]:
        """Run them, the first slice now; the promise of what they return, and how to call it off."""
        task = _Task(steps)
        self._resume(task)
        return task.result, task.cancel

    def queue(self, steps: Steps[T]) -> tuple[Promise[T], Callable[[], None]]:
        """The same, but behind all that have begun."""
        task = _Task(steps)
        self._behind.append(task)
        self._set_timer()
        return task.result, task.cancel

    def run_now(self, steps: Steps[T]) -> T | None:
        """What they return if one slice is enough; else None, and they are not to be used any more."""
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
        """Forget what is left."""
        self._turns.clear()
        self._behind.clear()
        self._timers.cancel(self)

    # The pace

    def _set_timer(self) -> None:
        if not self._is_at_work:
            self._timers.set(self, self._now_ns() + self._pause_ns, self._go_on)

    def _go_on(self) -> None:
        """One slice, shared by those whose turn it is."""
        while self._behind and len(self._turns) < MAX_TURNS:
            self._turns.append(self._behind.popleft())
        if self._turns:
            self._take_slice(self._turns.popleft())

    def _take_slice(self, task: _Task[Any]) -> None:
        self.slices += 1
        self._is_at_work = True
        try:
            self._run(task, self._now_ns() + self._slice_ns)
        finally:
            self._is_at_work = False
            if self._turns or self._behind:
                self._set_timer()

    def _run(self, task: _Task[Any], until_ns: int) -> None:
        """Until the time is over, a promise is waited for, or the steps have ended."""
        try:
            while not task.is_cancelled:
                promise = task.resume()
                if promise is not None and not promise.done:
                    promise.then(partial(self._wake, task), partial(self._wake_with_error, task))
                    return
                if promise is not None:
                    promise.then(task.take, task.take_error)
                if self._now_ns() >= until_ns:
                    self._turns.append(task)
                    return
            task.steps.close()
        except StopIteration as done:
            task.result.set(done.value)
        except Exception as error:
            task.result.fail(error)

    def _wake(self, task: _Task[Any], value: object) -> None:
        task.take(value)
        self._resume(task)

    def _wake_with_error(self, task: _Task[Any], error: BaseException) -> None:
        task.take_error(error)
        self._resume(task)

    def _resume(self, task: _Task[Any]) -> None:
        if self._is_at_work:
            self._turns.append(task)
        else:
            self._take_slice(task)
