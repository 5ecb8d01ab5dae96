"""The simulated world: nodes, virtual time, faults, and checks after every event; a seed determines all of
it.

Contains the lifecycle of nodes.  Programs on them and the schedule of faults belong in a scenario.  A node
has the same interfaces as in production: clock, random, disk, timers, workers, network.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Protocol

from barnabas.base.effects import Event, Received
from barnabas.base.units import NS_PER_MS
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.agenda import Agenda, Trace
from barnabas.runtime.simulated.clock import SimulatedClock
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Kind, PowerLost
from barnabas.runtime.simulated.links import Links
from barnabas.runtime.simulated.network import Internet, SimulatedNetwork
from barnabas.runtime.simulated.streams import Streams

Action = Callable[[], None]

# A world that has not ended after this many events is considered stuck.
MAX_EVENTS = 1_000_000
# Work on a worker starts after up to this delay, and its result is delivered after as long.
MAX_WORKER_DELAY_NS = 1_000_000


class InvariantError(AssertionError):
    """An invariant was violated."""


class Program(Protocol):
    """The program of a node, which receives its messages; usually an `Executor`."""

    def step(self, event: Event, /) -> None: ...


Boot = Callable[["Node"], Program | None]


class Node:
    """One machine: its interfaces, and its lifecycle from boot to crash."""

    def __init__(self, world: World, node_id: int, boot: Boot) -> None:
        self.world = world
        self._agenda = world.agenda
        self.id = node_id
        self.life = 0
        self.is_up = False
        self.program: Program | None = None
        self.random = world.random_for(f"node {node_id}")
        self.clock = SimulatedClock(world.agenda)
        self.disk = SimulatedDisk(world.random_for(f"disk {node_id}"), wall_ms=self.clock.wall_ms)
        self.disk.on_delay = self._slow
        self.disk.on_sync = self._refuse_on_loop
        # Whether what runs now is the node's loop, which must not wait for the device.
        self._is_on_loop = False
        self.timers = _NodeTimers(self)
        self.workers = _NodeWorkers(self)
        self.network = SimulatedNetwork(self, world.internet)
        self._boot = boot
        self._busy_until_ns = 0
        self._slowness_ns = 0

    def send(self, to: int, message: object) -> None:
        """Send a message to another node, subject to the faults of the network."""
        self.world.links.send(self.id, to, message)

    def after(self, delay_ns: int, action: Action) -> None:
        """Run on this node, unless it crashes before."""
        self.world.agenda.after(delay_ns, partial(self.enter, self.life, action))

    def enter(self, life: int, action: Action) -> None:
        """Run an action of that life; if power fails during it, the node goes down."""
        if life != self.life or not self.is_up:
            return
        agenda = self._agenda
        if agenda.now_ns < self._busy_until_ns:
            waiting_ns = self._busy_until_ns - agenda.now_ns
            agenda.after(waiting_ns, partial(self.enter, life, action))
            return
        self.world.active = self
        # Not `on_loop`: this is done for every event.
        before, self._is_on_loop = self._is_on_loop, True
        try:
            action()
        except PowerLost as loss:
            self._down(f"power lost: {loss}", notify_peers=False)
        finally:
            self._is_on_loop = before
        self._busy_until_ns = agenda.now_ns + self._slowness_ns
        self._slowness_ns = 0

    @contextlib.contextmanager
    def on_loop(self, *, is_on_loop: bool) -> Iterator[None]:
        """What is done within is done by the loop, or by a worker."""
        before, self._is_on_loop = self._is_on_loop, is_on_loop
        try:
            yield
        finally:
            self._is_on_loop = before

    def _refuse_on_loop(self, kind: Kind, path: str) -> None:
        if self._is_on_loop:
            violation = InvariantError(
                f"n{self.id}: {kind} of {path} on the loop, which serves nothing meanwhile"
            )
            # The code under test may catch it.
            self.world.violation = violation
            raise violation

    def pause(self, duration_ns: int) -> None:
        """The process is stopped (SIGSTOP): what is due or arrives meanwhile waits."""
        self._agenda.note(f"n{self.id} paused")
        self._busy_until_ns = max(self._busy_until_ns, self._agenda.now_ns + duration_ns)

    @property
    def stalled_ns(self) -> int:
        """How long nothing runs on it yet: its loop waits for a slow disk, or it is paused."""
        return max(0, self._busy_until_ns - self._agenda.now_ns)

    def halt(self, error: BaseException) -> None:
        """The program fails (an executor's `on_failure`): the process ends, the machine stays on.

        Only a fault of the disk excuses that: anything else is a bug, of the program or found by a checker.
        """
        if not _is_disk_fault(error):
            raise error
        self._down(f"halted: {error!r}", notify_peers=True)

    def start(self) -> None:
        """Boot from the state of the disk."""
        self.disk.restart()
        self.life += 1
        self.is_up = True
        self._busy_until_ns = 0
        self.world.agenda.note(f"n{self.id} start")
        self.enter(self.life, self._run_boot)

    def crash(self, *, power_loss: bool) -> None:
        """End at once.  With a power loss the disk loses unsynced data, and peers are not notified."""
        if not self.is_up:
            return
        if power_loss:
            self.disk.power_loss()
        self._down("crash, power lost" if power_loss else "crash", notify_peers=not power_loss)

    def _run_boot(self) -> None:
        # Nobody is served before it is up.
        with self.on_loop(is_on_loop=False):
            self.program = self._boot(self)

    def _down(self, why: str, *, notify_peers: bool) -> None:
        self.world.agenda.note(f"n{self.id} down: {why}")
        self.is_up = False
        self.life += 1
        self.program = None
        self.take_slowness_ns()
        self.network.drop(notify_peers=notify_peers)

    def take_slowness_ns(self) -> int:
        """How long the disk operations since the last call took: the caller is delayed by as much."""
        slowness_ns, self._slowness_ns = self._slowness_ns, 0
        return slowness_ns

    def _slow(self, delay_ms: int) -> None:
        self._slowness_ns += delay_ms * NS_PER_MS


class World:
    """All nodes and the network between them, for one seed."""

    def __init__(self, seed: int, *, keep_trace: bool = False) -> None:
        self.seed = seed
        self.trace = Trace(keep_all=keep_trace)
        self.agenda = Agenda(self.random_for("agenda"), self.trace)
        self.random = self.random_for("scenario")
        self.links = Links(self.agenda, self.random_for("links"), self._deliver)
        self.streams = Streams(self.agenda, self.links, self.random_for("streams"))
        self.internet = Internet(self.streams)
        self.nodes: dict[int, Node] = {}
        # The node that has run since the last check, if any: checkers need not look at the others.
        self.active: Node | None = None
        # What the world itself has found wrong.
        self.violation: InvariantError | None = None
        self.checkers: list[Action] = []

    @property
    def now_ns(self) -> int:
        return self.agenda.now_ns

    def random_for(self, purpose: str) -> SeededRandom:
        """A separate random source: draws of one part do not affect another."""
        digest = hashlib.blake2b(f"{self.seed}/{purpose}".encode(), digest_size=8).digest()
        return SeededRandom(int.from_bytes(digest, "big"))

    def add_node(self, node_id: int, boot: Boot) -> Node:
        """Add a machine and switch it on.  `boot` creates its program at every start, from the state of its
        disk."""
        node = self.nodes[node_id] = Node(self, node_id, boot)
        node.start()
        return node

    def check_always(self, checker: Action) -> None:
        """Run this after every event; it raises InvariantError."""
        self.checkers.append(checker)

    def run(self, duration_ns: int | None = None, *, until: Callable[[], bool] | None = None) -> None:
        """Run events until the duration is over, `until` holds, or no events remain."""
        if until is not None and until():
            return
        end_ns = None if duration_ns is None else self.now_ns + duration_ns
        has_ended = False

        def is_over() -> bool:
            nonlocal has_ended
            self._check()
            has_ended = until is not None and until()
            return has_ended

        is_watched = until is not None or bool(self.checkers)
        ran = self.agenda.run(end_ns, MAX_EVENTS, is_over if is_watched else None)
        self._check()
        if ran == MAX_EVENTS and not has_ended:
            raise InvariantError(f"no end after {MAX_EVENTS} events: something goes round in circles")
        if not has_ended and end_ns is not None:
            self.agenda.now_ns = end_ns

    def _check(self) -> None:
        """After every event."""
        if self.violation is not None:
            raise self.violation
        for check in self.checkers:
            check()
        self.active = None

    def _deliver(self, sender: int, to: int, message: object) -> None:
        node = self.nodes.get(to)
        if node is not None and node.is_up:
            self.agenda.note(f"{sender}>{to} {message!r}")
            node.enter(node.life, partial(_receive, node, sender, message))


def _is_disk_fault(error: BaseException) -> bool:
    """Whether an error of the device is this error, or its cause."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__
    return cause is not None


def _receive(node: Node, sender: int, message: object) -> None:
    if node.program is not None:
        node.program.step(Received(sender, message))


class _NodeTimers:
    """Timers by the node's own clock."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def set(self, key: Hashable, deadline_ns: int, action: Action) -> None:
        node = self._node
        fire = partial(node.enter, node.life, partial(self._fire, key, deadline_ns, action))
        node.world.agenda.set((node.id, node.life, key), node.clock.true_ns(deadline_ns), fire)

    def cancel(self, key: Hashable) -> None:
        self._node.world.agenda.cancel((self._node.id, self._node.life, key))

    def _fire(self, key: Hashable, deadline_ns: int, action: Action) -> None:
        if self._node.clock.monotonic_ns() < deadline_ns:
            # The clock was slowed down meanwhile.
            self.set(key, deadline_ns, action)
        else:
            self._node.world.agenda.note(f"n{self._node.id} timer")
            action()


class _NodeWorkers:
    """Blocking work: it runs after a delay, and its result is delivered later still; a crash may come
    between."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def submit(
        self, work: Callable[[], object], done: Callable[[object, BaseException | None], None]
    ) -> None:
        self._node.after(self._delay_ns(), partial(self._work, work, done))

    def _work(self, work: Callable[[], object], done: Callable[[object, BaseException | None], None]) -> None:
        node = self._node
        result: object = None
        error: BaseException | None = None
        # Not `on_loop`: this is done for every sync.
        before, node._is_on_loop = node._is_on_loop, False
        try:
            result = work()
        except InvariantError:
            raise
        except Exception as raised:
            error = raised
        finally:
            node._is_on_loop = before
        node.world.agenda.note(f"n{node.id} work done: {error!r}")
        # The worker was slow, not the loop.
        delay_ns = self._delay_ns() + self._node.take_slowness_ns()
        self._node.after(delay_ns, partial(done, result, error))

    def _delay_ns(self) -> int:
        return int(self._node.random.fraction() * MAX_WORKER_DELAY_NS)
