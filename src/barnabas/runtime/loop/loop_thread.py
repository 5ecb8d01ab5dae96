"""An asyncio loop in a thread of its own, for programs that have none.

What lives here: starting and ending the thread, handing work to its loop.  What may not: what the work is.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

END_PATIENCE_S = 30
# How long a fork waits for a loop that is in the middle of something; a callback on it may wait for the one
# that forks, and then neither would go on.
FORK_PATIENCE_S = 5


# Where the thread that waits in `run` looks for things to do; it goes with the coroutine's context.
_caller: ContextVar[SimpleQueue[Callable[[], None] | None] | None] = ContextVar("caller", default=None)


async def in_caller(call: Callable[[], T]) -> T:
    """Within a coroutine of `LoopThread.run`: make a call on the thread that waits there, and wait for it.

    That thread may make blocking calls of its own then, which on the loop's thread would last for ever.
    """
    wanted = _caller.get()
    if wanted is None:
        return call()
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def action() -> None:
        try:
            result = call()
        except BaseException as error:
            loop.call_soon_threadsafe(_settle, done, None, error)
        else:
            loop.call_soon_threadsafe(_settle, done, result, None)

    wanted.put(action)
    return await done


def _settle(done: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)


class _Loop(asyncio.SelectorEventLoop):
    """Finds hosts also while the program ends, when no executor takes anything any more: whoever writes the
    last lines of a log has to find a broker still."""

    async def getaddrinfo(
        self,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        try:
            return await super().getaddrinfo(host, port, family=family, type=type, proto=proto, flags=flags)
        except RuntimeError:
            return socket.getaddrinfo(host, port, family, type, proto, flags)


class LoopThread:
    """A daemon, so that a program that forgets to close it still ends."""

    def __init__(self, name: str) -> None:
        self.loop = _Loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        _serving.add(self)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            _serving.discard(self)
            self.loop.close()

    @property
    def is_current(self) -> bool:
        """Whether the caller is on this thread, where waiting for the loop would last for ever."""
        return threading.current_thread() is self._thread

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it; an interrupt (Ctrl+C) cancels it.

        Meanwhile this thread does what the coroutine asks of it by `in_caller`.
        """
        if self.is_current:
            work.close()
            raise RuntimeError("a blocking call was made from a callback: use the asyncio client there")
        wanted: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        token = _caller.set(wanted)
        try:
            future = self.submit(work)
        finally:
            _caller.reset(token)
        future.add_done_callback(lambda _: wanted.put(None))
        try:
            while (action := wanted.get()) is not None:
                action()
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call_soon(self, action: Callable[[], object]) -> None:
        self.loop.call_soon_threadsafe(action)

    def end(self) -> None:
        """Cancel what still runs, then end the thread."""
        if not self._thread.is_alive():
            return
        self.run(_cancel_rest())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(END_PATIENCE_S)


async def _cancel_rest() -> None:
    loop = asyncio.get_running_loop()
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


async def pause(seconds: float) -> None:
    """For coroutines that know nothing of loops: let everybody else go on for a while."""
    await asyncio.sleep(seconds)


# Forks ------------------------------------------------------------------------------------------------------

_serving: set[LoopThread] = set()
# By the thread that forks.
_held: dict[int, list[threading.Event]] = {}


def _hold_loops() -> None:
    """A fork takes none of these threads along: what one is in the middle of (importing a module, say) would
    stay half done in the child for ever.  So each stops between two steps of its loop."""
    held = _held[threading.get_ident()] = []
    for one in list(_serving):
        if one.is_current:
            continue
        is_held, go_on = threading.Event(), threading.Event()

        def hold(is_held: threading.Event = is_held, go_on: threading.Event = go_on) -> None:
            is_held.set()
            go_on.wait(FORK_PATIENCE_S)

        try:
            one.call_soon(hold)
        except RuntimeError:  # It has just ended.
            continue
        held.append(go_on)
        is_held.wait(FORK_PATIENCE_S)


def _let_loops_go_on() -> None:
    for go_on in _held.pop(threading.get_ident(), ()):
        go_on.set()


def _forget_loops() -> None:
    _serving.clear()
    _held.clear()


# Hooks run in the reverse order: those of the executors' threads, which take a lock that a step of a loop may
# wait for, must come after ours.
importlib.import_module("concurrent.futures.thread")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_loops, after_in_parent=_let_loops_go_on, after_in_child=_forget_loops)
