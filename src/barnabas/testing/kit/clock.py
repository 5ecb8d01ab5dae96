"""The time of one cluster: the machine's time, moved on by as much as the test says.

Wall time decides retention and the timestamps of appends; timers (sessions, time-outs, intervals) go by
monotonic time.  `advance` moves the first, and with `timers=True` both.
"""

from __future__ import annotations

import datetime
from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.clock import ShiftedClock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.quiet import QuietPoller
from barnabas.runtime.loop.reactor import Reactor
from barnabas.testing.kit.errors import KitError

if TYPE_CHECKING:
    from barnabas.testing.kit.cluster import Cluster
    from barnabas.testing.kit.node.nodes import Nodes

MS_PER_S = 1_000
# Timers of an hour fire within seconds; more is asked for by name.
DEFAULT_MAX_S = 3_600.0
ADVANCE_PATIENCE_S = 600.0
# A step is at least so long: what is due within it happens in its order, and a little late.  Longer advances
# have longer steps, far below the time-outs between nodes.
SHORT_STEP_NS, LONG_STEP_NS = 20 * NS_PER_MS, 200 * NS_PER_MS
LONG_ADVANCE_MS = 60 * MS_PER_S
# Turns of the loop without anything to read, after which everything that a timer has caused is done.
QUIET_TURNS = 2
# Turns after which the next timer fires although something is still going on: clients talk when they like.
MAX_TURNS = 100
# Turns that workers may take for what a timer has asked of them.
MAX_WORKER_TURNS = 1_000_000


class ClusterClock:
    """`cluster.clock`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def now_ms(self) -> int:
        """The cluster's wall time, in milliseconds since 1970."""
        return self._cluster.running.clock.wall_ms()

    @property
    def now(self) -> datetime.datetime:
        """The cluster's wall time."""
        return datetime.datetime.fromtimestamp(self.now_ms / MS_PER_S, datetime.UTC)

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        ms: float = 0,
        timers: bool = False,
        max: float = DEFAULT_MAX_S,
    ) -> None:
        """Moves the time on.

        With `timers`, what is due meanwhile happens, in its order: sessions of dead members expire,
        transactions time out, the tasks of the logs run.  Members with an open connection stay: their
        clients know nothing of the new time, so their sessions are prolonged by as much.  An advance of more
        than `max` seconds with timers is refused: each of them takes its time.
        """
        given = datetime.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=ms)
        if given <= datetime.timedelta(0):
            raise KitError("time moves on only: give days, hours, minutes, seconds or ms above 0")
        running = self._cluster.running
        given_ms = int(given.total_seconds() * MS_PER_S)
        if not timers:

            def move() -> None:
                running.clock.wall_offset_ms += given_ms

            running.call(move)
            return
        if given.total_seconds() > max:
            raise KitError(
                f"{given} with timers is more than max={max:g} seconds: without timers=True only the wall"
                " clock moves, which is enough for retention; or give a higher max"
            )
        running.finish(
            lambda: Advance(running.reactor, running.poller, running.clock, running.nodes, given_ms).start(),
            ADVANCE_PATIENCE_S,
        )


class Advance:
    """One advance with timers, on the reactor's thread: fire what is due, wait until all is quiet, go on."""

    def __init__(
        self, reactor: Reactor, poller: QuietPoller, clock: ShiftedClock, nodes: Nodes, total_ms: int
    ) -> None:
        self._reactor = reactor
        self._poller = poller
        self._clock = clock
        self._nodes = nodes
        self._left_ns = total_ms * NS_PER_MS
        self._shortest_ns = SHORT_STEP_NS if total_ms <= LONG_ADVANCE_MS else LONG_STEP_NS
        # Moved already, but less than a millisecond.
        self._remainder_ns = 0
        self._turns = 0
        self._quiet_turns = 0
        self._live = _live_clients(nodes)
        self._done: Promise[None] = Promise()

    def start(self) -> Promise[None]:
        self._reactor.at_tick_end(self._turn)
        return self._done

    def _turn(self) -> None:
        """Called once in each turn of the loop."""
        try:
            if self._is_quiet() and not self._step():
                self._done.set(None)
                return
        except Exception as error:
            self._done.fail(error)
            return
        self._poller.at_next_turn(self._turn)

    def _is_quiet(self) -> bool:
        self._turns += 1
        is_working = any(node.is_working for node in self._nodes.by_id.values() if node.is_up)
        if is_working:
            if self._turns > MAX_WORKER_TURNS:
                raise KitError(f"time does not go on: {self._busy()} waits for its disk and does not end")
            self._quiet_turns = 0
            return False
        self._quiet_turns = 0 if self._poller.found else self._quiet_turns + 1
        return self._quiet_turns >= QUIET_TURNS or self._turns >= MAX_TURNS

    def _busy(self) -> str:
        return ", ".join(f"node {node.id}" for node in self._nodes.by_id.values() if node.is_working)

    def _step(self) -> bool:
        """Moves to the next timer; returns whether anything is left."""
        self._turns = self._quiet_turns = 0
        if self._left_ns <= 0:
            return False
        due_ns = self._reactor.timers.next_deadline_ns()
        now_ns = self._clock.monotonic_ns()
        until_due_ns = self._left_ns if due_ns is None else due_ns - now_ns
        self._move(min(max(until_due_ns, self._shortest_ns), self._left_ns))
        return True

    def _move(self, step_ns: int) -> None:
        self._left_ns -= step_ns
        self._clock.monotonic_offset_ns += step_ns
        moved_ms, self._remainder_ns = divmod(self._remainder_ns + step_ns, NS_PER_MS)
        self._clock.wall_offset_ms += moved_ms
        if moved_ms and self._live:
            self._prolong(moved_ms)

    def _prolong(self, by_ms: int) -> None:
        """The sessions of live members, and the rebalances of their groups."""
        for node in self._nodes.brokers:
            if not node.is_up:
                continue
            for machine in node.broker.groups.machines():
                kept: set[Hashable] = set()
                for group in machine.table:
                    members = getattr(group, "members", {})
                    live = [each for each, member in members.items() if member.client_id in self._live]
                    kept.update(live)
                    if live:
                        kept.add(group.group_id)
                machine.timers.postpone(by_ms, partial(_concerns, kept))


def _concerns(kept: set[Hashable], key: Hashable) -> bool:
    """Whether a coordinator's timer is about a live member, or about a group that has one."""
    return isinstance(key, tuple) and (key[-1] in kept or (key[-1] in ("join", "sync") and key[1] in kept))


def _live_clients(nodes: Nodes) -> set[str]:
    """The client ids of open connections."""
    return {
        client_id
        for node in nodes.brokers
        if node.is_up
        for listener in node.broker.listeners.values()
        for client_id in listener.client_ids()
    }
