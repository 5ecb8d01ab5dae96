"""The synchronous face: a client on a loop in a thread, method by method.

What lives here: how a coroutine becomes a call that waits.  What may not: any behaviour of a client.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from barnabas.client.errors.local import ClosedError
from barnabas.runtime.loop.loop_thread import LoopThread

C = TypeVar("C")
# A face of a client is a face of each of the parts that the client is made of.
C_co = TypeVar("C_co", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class Face(Generic[C_co]):
    """One client and its thread."""

    def __init__(self, thread: LoopThread, client: C_co) -> None:
        self._thread = thread
        self._client = client
        self._is_ending = False
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError

    def call(self, work: Callable[[C_co], Coroutine[Any, Any, T]]) -> T:
        """Wait for work that takes the asyncio client."""
        if self._is_closed:
            raise ClosedError("the client is closed; open a new one")
        return self._thread.run(work(self._client))

    def _end(self, closing: Coroutine[Any, Any, None]) -> None:
        if self._is_ending:
            closing.close()
            return
        # Not closed yet: what the client calls on its way out may still use it.
        self._is_ending = True
        try:
            self._thread.run(closing)
        finally:
            self._is_closed = True
            self._thread.end()


def blocking(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Face[C], P], T]:
    """The same method, waited for."""

    def call(face: Face[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        if face._is_closed:
            raise ClosedError("the client is closed; open a new one")
        return face._thread.run(method(face._client, *args, **kwargs))

    update_wrapper(call, method)
    return call


def plain(method: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[Face[C], P], T]:
    """The same method, which does not wait itself, called where the client lives."""

    def call(face: Face[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        if face._is_closed:
            raise ClosedError("the client is closed; open a new one")

        async def called() -> T:
            return method(face._client, *args, **kwargs)

        return face._thread.run(called())

    update_wrapper(call, method)
    return call


def started(name: str, make: Callable[[], C]) -> tuple[LoopThread, C]:
    """A client made on the loop of a new thread; no thread is left if it cannot be made."""
    thread = LoopThread(name)

    async def made() -> C:
        return make()

    try:
        return thread, thread.run(made())
    except BaseException:
        thread.end()
        raise
