"""Blocking clients: an asyncio client on a loop in a thread, wrapped method by method."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from barnabas.client.errors.local import ClosedError, UndeliveredError
from barnabas.runtime.loop.loop_thread import LoopThread

logger = logging.getLogger(__name__)

C = TypeVar("C")
# A facade of a client is a facade of each of its base classes.
C_co = TypeVar("C_co", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class BlockingClient(Generic[C_co]):
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
        try:
            self.close()
        except UndeliveredError as lost:
            if error is None:
                raise
            logger.error("%s", lost.message)

    def close(self) -> None:
        raise NotImplementedError

    def call(self, work: Callable[[C_co], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine of the asyncio client and wait for it."""
        if self._is_closed:
            raise ClosedError("the client is closed; open a new one")
        return self._thread.run(work(self._client))

    def _end(self, closing: Coroutine[Any, Any, None]) -> None:
        if self._is_ending:
            closing.close()
            return
        # Not closed yet: callbacks during closing may still use the client.
        self._is_ending = True
        try:
            self._thread.run(closing)
        finally:
            self._is_closed = True
            self._thread.end()


def blocking(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingClient[C], P], T]:
    """Wrap a coroutine method as a blocking one."""

    def call(client: BlockingClient[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        if client._is_closed:
            raise ClosedError("the client is closed; open a new one")
        return client._thread.run(method(client._client, *args, **kwargs))

    update_wrapper(call, method)
    return call


def on_loop(method: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[BlockingClient[C], P], T]:
    """Wrap a plain method so that it runs on the client's loop."""

    def call(client: BlockingClient[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        if client._is_closed:
            raise ClosedError("the client is closed; open a new one")

        async def called() -> T:
            return method(client._client, *args, **kwargs)

        return client._thread.run(called())

    update_wrapper(call, method)
    return call


def start_client(name: str, make: Callable[[], C]) -> tuple[LoopThread, C]:
    """Create a client on the loop of a new thread; the thread is stopped if that fails."""
    thread = LoopThread(name)

    async def made() -> C:
        return make()

    try:
        return thread, thread.run(made())
    except BaseException:
        thread.end()
        raise
