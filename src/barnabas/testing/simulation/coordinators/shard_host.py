"""A shard in the simulated world: its lifecycle, its timers, and the wire to its clients; not a scenario
itself.

Contains a coordinator that fails over, and requests that are late, lost or duplicated.  The requests belong
in `members`, the invariants in `group_book`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.config import BROKER
from barnabas.config.settings import Settings
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.shard import Machine, Shard
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.simulated.world import InvariantError, World
from barnabas.testing.simulation.coordinators.coordinator_log import ReplicatedLog, Written

M = TypeVar("M", bound=Machine)
R = TypeVar("R")
Decide = Callable[[M, Context], Decision[R]]

START_WALL_MS = 1_700_000_000_000
COMMIT_TIMEOUT_MS = 1_000
_NODE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
}


@dataclass
class Cluster:
    """The metadata that all shards of a world use."""

    settings: Settings
    image: Image = EMPTY_IMAGE

    @classmethod
    def of(cls, options: dict[str, str]) -> Cluster:
        return cls(BROKER.parse({**_NODE, **options}))


class Faults:
    """Violations found while a shard decides: the shard would treat them as its own failed decision."""

    def __init__(self, world: World, check: Callable[[Written], None]) -> None:
        self._check = check
        self._found: list[InvariantError] = []
        world.check_always(self._raise)

    @classmethod
    def watch(cls, world: World, check: Callable[[Written], None]) -> Callable[[Written], None]:
        """The check, deferred to the end of the event."""
        return cls(world, check)._note

    def _note(self, written: Written) -> None:
        try:
            self._check(written)
        except InvariantError as error:
            self._found.append(error)

    def _raise(self) -> None:
        if self._found:
            raise self._found[0]


class _Listener(logging.Handler):
    """Catches errors in decisions without a waiting request."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and record.exc_info[1] is not None:
            raise record.exc_info[1]
        raise InvariantError(record.getMessage())


@contextmanager
def no_silent_errors() -> Iterator[None]:
    """An error that a coordinator logs is a failure."""
    listener = _Listener(logging.ERROR)
    logger = logging.getLogger("barnabas.coordinator")
    logger.addHandler(listener)
    try:
        yield
    finally:
        logger.removeHandler(listener)


class Host(Generic[M]):
    """One shard, across fail-overs."""

    def __init__(
        self, world: World, cluster: Cluster, log: ReplicatedLog, make_machine: Callable[[], M]
    ) -> None:
        self.log = log
        self.shard: Shard[M] | None = None
        self._world = world
        self._cluster = cluster
        self._make_machine = make_machine
        self._random = world.random_for(f"host {log.name}")
        log.on_progress = self._progressed
        self._start()

    @property
    def machine(self) -> M | None:
        return None if self.shard is None else self.shard.machine

    @property
    def now_ms(self) -> int:
        return self._world.now_ns // NS_PER_MS

    def _context(self) -> Context:
        cluster = self._cluster
        return Context(START_WALL_MS + self.now_ms, cluster.image, cluster.settings, self._random)

    # Requests

    def ask(self, decide: Decide[M, R]) -> Promise[R]:
        shard = self.shard
        if shard is None:
            refused: Promise[R] = Promise()
            codes = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            refused.fail(KafkaError(codes[self._random.integer(0, 1)]))
            return refused
        answer = shard.ask(decide, self._context(), self.now_ms)
        self._after()
        return answer

    def metadata_changed(self, delta: Delta) -> None:
        if self.shard is not None:
            self.shard.metadata_changed(delta, self._context(), self.now_ms)
            self._after()

    def _progressed(self) -> None:
        if self.shard is not None:
            self.shard.look_at_commits()
            self._after()

    def _after(self) -> None:
        shard = self.shard
        if shard is None:
            return
        times = [shard.machine.timers.next_deadline(), shard.next_expiry]
        due = [time for time in times if time is not None]
        if due:
            self._world.agenda.set((self.log.name, "timers"), min(due) * NS_PER_MS, partial(self._due, shard))

    def _due(self, shard: Shard[M]) -> None:
        if shard is self.shard:
            shard.run_due(self._context(), self.now_ms)
            shard.expire(self.now_ms)
            self._after()

    # Lifecycle

    def fail_over(self, *, orderly: bool, compact: bool, down_ns: int) -> None:
        """Another replica becomes leader: pending requests get an error if it is orderly, else no
        response."""
        shard, self.shard = self.shard, None
        if shard is None:
            return
        self._world.agenda.note(f"{self.log.name}: its leader goes, {'in order' if orderly else 'at once'}")
        if orderly:
            shard.drop(KafkaError(ErrorCode.NOT_COORDINATOR))
        self.log.change_leader(compact=compact)
        self._world.agenda.after(down_ns, self._start)

    def _start(self) -> None:
        if self.shard is not None:
            return
        machine = self.reloaded()
        shard = Shard(machine, self.log, end_offset=self.log.end, commit_timeout_ms=COMMIT_TIMEOUT_MS)
        self.shard = shard
        shard.start(self._context(), self.now_ms)
        self._after()

    def reloaded(self) -> M:
        """A machine that is built from the log alone."""
        machine = self._make_machine()
        self.log.load_into(machine)
        return machine


@dataclass
class WireFaults:
    """Faults of requests and responses, as probabilities; and their delays."""

    lost: float = 0.0
    twice: float = 0.0
    slow: float = 0.0
    max_delay_ns: int = 5 * NS_PER_MS
    max_slow_ns: int = 2_500 * NS_PER_MS


@dataclass
class Wire:
    """The connection between clients and hosts."""

    world: World
    faults: WireFaults = field(default_factory=WireFaults)

    def __post_init__(self) -> None:
        self._random = self.world.random_for("wire")

    def call(
        self,
        ask: Callable[[], Promise[R]],
        then: Callable[[R | KafkaError | None], None],
        timeout_ns: int,
        *,
        in_order: bool = False,
    ) -> None:
        """Send a request; `then` gets the response, an error, or None after the timeout; once.

        `in_order`: a request that has not arrived when its sender times out never arrives.
        """
        pending: _Pending[R] = _Pending(then)
        arrive = partial(self._arrive, ask, pending)
        self._send(partial(pending.if_awaited, arrive) if in_order else arrive)
        if not in_order and self._random.fraction() < self.faults.twice:
            # The client's first connection broke, but what it had sent arrives all the same, perhaps late.
            unawaited: _Pending[R] = _Pending(lambda _: None)
            self.world.agenda.after(self._late_ns(), partial(self._arrive, ask, unawaited))
        self.world.agenda.after(timeout_ns, partial(pending.settle, None))

    def _arrive(self, ask: Callable[[], Promise[R]], pending: _Pending[R]) -> None:
        def failed(error: BaseException) -> None:
            if not isinstance(error, KafkaError):
                raise error
            self._send(partial(pending.settle, error))

        ask().then(lambda value: self._send(partial(pending.settle, value)), failed)

    def _send(self, arrive: Callable[[], None]) -> None:
        if self._random.fraction() >= self.faults.lost:
            slow = self._random.fraction() < self.faults.slow
            delay_ns = self._late_ns() if slow else self._random.integer(0, self.faults.max_delay_ns)
            self.world.agenda.after(delay_ns, arrive)

    def _late_ns(self) -> int:
        return self._random.integer(0, self.faults.max_slow_ns)


class _Pending(Generic[R]):
    """A client that waits for one response."""

    __slots__ = ("_then",)

    def __init__(self, then: Callable[[R | KafkaError | None], None]) -> None:
        self._then: Callable[[R | KafkaError | None], None] | None = then

    def if_awaited(self, action: Callable[[], None]) -> None:
        if self._then is not None:
            action()

    def settle(self, value: R | KafkaError | None) -> None:
        then, self._then = self._then, None
        if then is not None:
            then(value)
