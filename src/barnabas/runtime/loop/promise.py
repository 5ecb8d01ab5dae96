"""A promise for code that runs on one thread: a value that is not available yet.

Contains a promise that is completed or failed once, and its callbacks.  Threads and asyncio belong elsewhere.
Completing a promise calls its callbacks at once, in the order in which they were added.  A callback that
raises does not prevent the others: all are called, then the first error is raised to the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from barnabas.runtime.loop.callbacks import call_each

T = TypeVar("T")


class Promise(Generic[T]):
    """Completed or failed once; a callback that is added later is called at once."""

    __slots__ = ("_done", "_error", "_value", "_waiting")

    def __init__(self) -> None:
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._waiting: list[tuple[Callable[[T], None], Callable[[BaseException], None]]] = []

    @classmethod
    def of(cls, value: T) -> Promise[T]:
        """An already completed promise."""
        promise = cls()
        promise.set(value)
        return promise

    @property
    def done(self) -> bool:
        return self._done

    @property
    def error(self) -> BaseException | None:
        """The error of a failed promise."""
        return self._error

    @property
    def value(self) -> T:
        """The value of a completed promise."""
        return self._value  # type: ignore[return-value]  # T itself may be None

    def set(self, value: T) -> None:
        """Complete the promise."""
        self._settle()
        self._value = value
        waiting, self._waiting = self._waiting, []
        if len(waiting) == 1:
            waiting[0][0](value)
        elif waiting:
            call_each(partial(on_value, value) for on_value, _ in waiting)

    def fail(self, error: BaseException) -> None:
        """Fail the promise."""
        self._settle()
        self._error = error
        waiting, self._waiting = self._waiting, []
        call_each(partial(on_error, error) for _, on_error in waiting)

    def then(self, on_value: Callable[[T], None], on_error: Callable[[BaseException], None]) -> None:
        """Call one of the two once the promise is completed or failed."""
        if not self._done:
            self._waiting.append((on_value, on_error))
        elif self._error is not None:
            on_error(self._error)
        else:
            on_value(self._value)  # type: ignore[arg-type]  # T itself may be None

    def _settle(self) -> None:
        if self._done:
            raise RuntimeError("this was set or failed before")
        self._done = True
