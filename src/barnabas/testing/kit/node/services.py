"""What one node of the kit sees of the reactor: timers and workers of its own, so that the node can be paused
or killed while the others go on."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeVar

from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.loop.workers import Completion, LoopWorkers, ThreadWorkers

T = TypeVar("T")
Action = Callable[[], None]

WORKERS = 2


class Gate:
    """Open: things happen at once.  Shut: they wait, in order.  Closed for good: they never happen."""

    def __init__(self) -> None:
        self.is_shut = False
        self.is_over = False
        self._waiting: list[Action] = []

    def run(self, action: Action) -> None:
        if self.is_over:
            return
        if self.is_shut:
            self._waiting.append(action)
        else:
            action()

    def shut(self) -> None:
        self.is_shut = True

    def open(self) -> None:
        self.is_shut = False
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            self.run(action)

    def end(self) -> None:
        self.is_over = True
        self._waiting.clear()


class NodeTimers:
    """The reactor's timers under keys of this node."""

    def __init__(self, reactor: Reactor, gate: Gate) -> None:
        self._timers = reactor.timers
        self._gate = gate
        self._keys: set[Hashable] = set()
        # Timers that came due while the node was paused.
        self._late: dict[Hashable, Action] = {}

    def set(self, key: Hashable, deadline_ns: int, action: Action) -> None:
        if self._gate.is_over:
            return
        self._late.pop(key, None)
        self._keys.add(key)
        self._timers.set((self, key), deadline_ns, partial(self._fire, key, action))

    def cancel(self, key: Hashable) -> None:
        self._keys.discard(key)
        self._late.pop(key, None)
        self._timers.cancel((self, key))

    def end(self) -> None:
        for key in self._keys:
            self._timers.cancel((self, key))
        self._keys.clear()
        self._late.clear()

    def _fire(self, key: Hashable, action: Action) -> None:
        self._keys.discard(key)
        if self._gate.is_shut:
            self._late[key] = action
            self._gate.run(partial(self._fire_late, key))
        else:
            self._gate.run(action)

    def _fire_late(self, key: Hashable) -> None:
        action = self._late.pop(key, None)
        if action is not None:
            action()


class NodeWorkers:
    """Workers whose results wait while the node is paused, and are dropped when it is killed."""

    def __init__(self, reactor: Reactor, gate: Gate) -> None:
        self._threads = ThreadWorkers(WORKERS)
        self._workers = LoopWorkers(self._threads, reactor.post)
        self._gate = gate
        # Calls whose results are not there yet.
        self.pending = 0

    def submit(self, work: Callable[[], T], done: Completion[T], /) -> None:
        self.pending += 1

        def deliver(result: T | None, error: BaseException | None) -> None:
            self.pending -= 1
            self._gate.run(partial(done, result, error))

        self._workers.submit(work, deliver)

    def close(self) -> None:
        self._threads.close()


class NodeLoop:
    """The event loop as this node's broker uses it."""

    def __init__(self, reactor: Reactor, gate: Gate) -> None:
        self.timers = NodeTimers(reactor, gate)
        self._reactor = reactor
        self._gate = gate

    def at_tick_end(self, action: Action, /) -> None:
        self._reactor.at_tick_end(partial(self._gate.run, action))
