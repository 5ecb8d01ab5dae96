"""An asyncio loop on a simulated machine: coroutines run in virtual time, and the client with them.

What is ready runs in the order in which it became ready, as on any loop; when that happens is an event of the
machine, so that a crash ends it.  Threads are refused: what they do is not determined by a seed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from typing import Any, NoReturn, TypeVarTuple

from barnabas.base.units import NS_PER_MS, NS_PER_S
from barnabas.runtime.loop.loop_services import ClientNetwork
from barnabas.runtime.network.asyncio_network import ClientSocketOptions
from barnabas.runtime.network.network import CloseReason, Connection, StreamHandler
from barnabas.runtime.random import Random
from barnabas.runtime.simulated.clock import SimulatedClock
from barnabas.runtime.simulated.world import Node

Ts = TypeVarTuple("Ts")


class SimulatedEventLoop(asyncio.BaseEventLoop):
    """The loop of one life of a machine."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.barnabas_services = SimulatedServices(self, node)
        # Exceptions that nobody awaited.
        self.lost: list[BaseException] = []
        self._node = node
        self._waiting: deque[asyncio.Handle] = deque()
        # Kept until the end: a task that is collected runs its `finally`, which a crash does not.
        self._tasks: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        return self._node.clock.monotonic_ns() / NS_PER_S

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._waiting.append(handle)
        if len(self._waiting) == 1:
            self._node.after(0, self._run_waiting)
        return handle

    # Everything of a simulation happens in one thread.
    call_soon_threadsafe = call_soon

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def fire() -> None:
            if not handle.cancelled():
                with self.running():
                    handle._run()

        self._node.after(max(0, int((when - self.time()) * NS_PER_S)), fire)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        options.setdefault("name", f"task {len(self._tasks)}")
        task: asyncio.Task[Any] = super().create_task(coro, **options)
        self._tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> NoReturn:  # type: ignore[override]
        raise RuntimeError("a simulation has no threads: call the function itself")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self._lose(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._lose(context)

    def _lose(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None:
            self.lost.append(error)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """What is called within sees this loop as the running one."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(before)

    def dispose(self) -> None:
        """The simulation is over: what still waits is dropped."""
        with self.running():
            for task in self._tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    with contextlib.suppress(BaseException):
                        coroutine = task.get_coro()
                        if isinstance(coroutine, Coroutine):
                            coroutine.close()
        self._tasks.clear()
        self._waiting.clear()
        self.close()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It looks when it fires."""

    def _run_waiting(self) -> None:
        handles = list(self._waiting)
        self._waiting.clear()
        with self.running():
            for handle in handles:
                if not handle.cancelled():
                    handle._run()


class SimulatedServices:
    """Clock, randomness, network and names of a simulated machine."""

    def __init__(self, loop: SimulatedEventLoop, node: Node) -> None:
        self.clock = LoopClock(node.clock)
        self.random: Random = node.random
        self.resolver = SimulatedNames()
        self._loop = loop
        self._node = node

    def make_network(self) -> ClientNetwork:
        return LoopNetwork(self._loop, self._node)


class LoopClock:
    """The machine's clock, with nanoseconds."""

    def __init__(self, clock: SimulatedClock) -> None:
        self.wall_ms = clock.wall_ms
        self.monotonic_ns = clock.monotonic_ns

    def wall_ns(self) -> int:
        return self.wall_ms() * NS_PER_MS


class SimulatedNames:
    """Every name is the address of itself."""

    async def addresses(self, host: str) -> list[str]:
        return [host]

    async def canonical_names(self, host: str) -> list[str]:
        return [host]


class LoopNetwork:
    """The machine's network, for handlers that belong to its loop."""

    def __init__(self, loop: SimulatedEventLoop, node: Node) -> None:
        self._loop = loop
        self._node = node

    def connect(
        self, host: str, port: int, handler: StreamHandler, options: ClientSocketOptions | None = None
    ) -> Callable[[], object]:
        attempt = _LoopHandler(self._loop, handler)
        self._node.network.connect(host, port, attempt)
        limit_ms = (options or ClientSocketOptions()).connect_timeout_ms
        self._node.after(limit_ms * NS_PER_MS, attempt.time_out)
        return attempt.cancel


class _LoopHandler(StreamHandler):
    """Calls a handler on the loop, and not after it was cancelled."""

    def __init__(self, loop: SimulatedEventLoop, handler: StreamHandler) -> None:
        self._loop = loop
        self._handler = handler
        self._is_decided = False
        self._is_cancelled = False

    def cancel(self) -> None:
        """Before the connection is made."""
        if not self._is_decided:
            self._end(CloseReason.LOCAL)

    def time_out(self) -> None:
        if not self._is_decided:
            self._end(CloseReason.CONNECT_TIMED_OUT)

    def _end(self, reason: CloseReason) -> None:
        self._is_decided = self._is_cancelled = True
        with self._loop.running():
            self._handler.closed(reason, None)

    def connected(self, connection: Connection) -> None:
        if self._is_cancelled:
            connection.close()
            return
        self._is_decided = True
        with self._loop.running():
            self._handler.connected(connection)

    def data_received(self, view: memoryview) -> int:
        with self._loop.running():
            return self._handler.data_received(view)

    def drained(self) -> None:
        with self._loop.running():
            self._handler.drained()

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        self._is_decided = True
        if not self._is_cancelled:
            with self._loop.running():
                self._handler.closed(reason, error)
