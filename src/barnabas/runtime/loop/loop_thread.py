"""An asyncio loop in its own thread, for programs without one: starting and ending the thread, and submitting
work to its loop."""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

END_PATIENCE_S = 30
# How long a fork waits for a busy loop; a callback on the loop may itself wait for the forking thread, and
# then neither could continue.
FORK_PATIENCE_S = 5


# Calls for the thread that waits in `run`; inherited through the coroutine's context.
_caller: ContextVar[SimpleQueue[Callable[[], None] | None] | None] = ContextVar("caller", default=None)


async def in_caller(call: Callable[[], T]) -> T:
    """Within a coroutine of `LoopThread.run`: make a call on the thread that waits there, and wait for it.

    That thread may then make blocking calls of its own, which would deadlock on the loop's thread.
    """
    calls = _caller.get()
    if calls is None:
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

    calls.put(action)
    return await done


def _settle(done: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)


class _Loop(asyncio.SelectorEventLoop):
    """Resolves hosts even while the program exits, when no executor accepts work any more: the last lines of
    a log must still find a broker.  And its time goes on while a test freezes that of its own code."""

    # The system's own function, see `ShiftedClock`.
    _monotonic = staticmethod(time.monotonic)

    def time(self) -> float:
        return self._monotonic()

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
    """A daemon thread, so that a program that does not close it still exits."""

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
        """Whether the caller is on this thread, where waiting for the loop would deadlock."""
        return threading.current_thread() is self._thread

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it; an interrupt (Ctrl+C) cancels it.

        Meanwhile this thread runs the calls that the coroutine makes through `in_caller`.
        """
        if self.is_current:
            work.close()
            raise RuntimeError("a blocking call was made from a callback: use the asyncio client there")
        calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        token = _caller.set(calls)
        try:
            future = self.submit(work)
        finally:
            _caller.reset(token)
        future.add_done_callback(lambda _: calls.put(None))
        try:
            while (action := calls.get()) is not None:
                action()
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call_soon(self, action: Callable[[], object]) -> None:
        self.loop.call_soon_threadsafe(action)

    def end(self) -> None:
        """Cancel all running tasks, then end the thread."""
        if not self._thread.is_alive():
            return
        self.run(_cancel_others())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(END_PATIENCE_S)


async def _cancel_others() -> None:
    loop = asyncio.get_running_loop()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


async def pause(seconds: float) -> None:
    """For coroutines that do not know their loop: let other tasks run for a while."""
    await asyncio.sleep(seconds)


# Forks ------------------------------------------------------------------------------------------------------

_serving: set[LoopThread] = set()
# By forking thread.
_held: dict[int, list[threading.Event]] = {}


def _hold_loops() -> None:
    """A fork does not copy these threads: what one is doing at the time (importing a module, for example)
    would stay unfinished in the child forever.  So each stops between two steps of its loop."""
    held = _held[threading.get_ident()] = []
    for loop_thread in list(_serving):
        if loop_thread.is_current:
            continue
        is_held, release = threading.Event(), threading.Event()

        def hold(is_held: threading.Event = is_held, release: threading.Event = release) -> None:
            is_held.set()
            release.wait(FORK_PATIENCE_S)

        try:
            loop_thread.call_soon(hold)
        except RuntimeError:  # It has just ended.
            continue
        held.append(release)
        is_held.wait(FORK_PATIENCE_S)


def _release_loops() -> None:
    for release in _held.pop(threading.get_ident(), ()):
        release.set()


def _forget_loops() -> None:
    _serving.clear()
    _held.clear()


# Hooks run in reverse order: those of the executors' threads, which take a lock that a step of a loop may
# wait for, must come after ours.
importlib.import_module("concurrent.futures.thread")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_loops, after_in_parent=_release_loops, after_in_child=_forget_loops)
