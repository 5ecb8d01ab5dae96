"""Two simulated controllers over one metadata log, of which one is active; the other may not know it yet.

The decisions are those of production.  How a quorum agrees is not simulated here (see `controller-quorum`):
the log takes what the active controller of the newest epoch appends, in order, after a delay.  A controller
that was replaced decides on its old image until it hears of it: what it decides is never committed, and what
it refuses it refuses for old reasons.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import cache, partial

from barnabas.base.effects import Event, Received
from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.config import Settings
from barnabas.controller.decision import Context
from barnabas.controller.machine import Controller
from barnabas.controller.state import ControllerOptions
from barnabas.metadata.bootstrap import choose_levels, first_records
from barnabas.metadata.delta import Delta
from barnabas.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION, metadata_version_named
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.records.metadata import BeginTransactionRecord, EndTransactionRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.simulated.world import World
from barnabas.testing.simulation.metadata_node import CLUSTER_ID, configuration
from barnabas.testing.simulation.replicas.messages import Answer, Ask, Committed

SESSION_MS = 1_000
MAX_COMMIT_DELAY_NS = 6 * NS_PER_MS
TASKS_NS = 150 * NS_PER_MS
# How long a controller that was replaced goes on, at most.
MAX_ZOMBIE_NS = 1_500 * NS_PER_MS
# Rounds of the tasks between two of these.
BALANCE_ONE_IN = 8
RELEASE = "4.1"


@cache
def _settings() -> Settings:
    return configuration({"broker.session.timeout.ms": SESSION_MS}).settings


@cache
def _bootstrap(*, has_elr: bool) -> Sequence[Message]:
    level = {ELIGIBLE_LEADER_REPLICAS_VERSION: 1 if has_elr else 0}
    version, levels = choose_levels(
        level, metadata_version_named(RELEASE), dynamic_quorum=False, unstable=False
    )
    return first_records(version, levels)


def _without_transaction(records: Sequence[Message]) -> list[Message]:
    """Here all records of a decision are committed at once."""
    return [each for each in records if not isinstance(each, (BeginTransactionRecord, EndTransactionRecord))]


class MetadataLog:
    """What is committed, and which controller may append."""

    def __init__(self, brokers: Sequence[int], on_commit: Callable[[Image, Image], None]) -> None:
        self.brokers = brokers
        self.image = EMPTY_IMAGE
        self.epoch = 0
        self._on_commit = on_commit

    def commit(self, delta: Delta) -> None:
        assert delta.before is self.image, "what is committed follows what was committed"
        before, self.image = self.image, delta.image
        self._on_commit(before, self.image)


class ControllerNode:
    """One controller."""

    def __init__(self, world: World, node_id: int, log: MetadataLog, *, has_elr: bool) -> None:
        self._world = world
        self._log = log
        self._bootstrap = _bootstrap(has_elr=has_elr)
        self._random = world.random_for(f"controller {node_id}")
        self._controller: Controller | None = None
        # The epoch in which it is, or believes to be, active.
        self._epoch: int | None = None
        self._offset = -1
        # Decided and not committed yet, with the answer that waits for it.
        self._uncommitted: deque[tuple[Delta | None, Callable[[], None]]] = deque()
        self._rounds = 0
        self.node = world.add_node(node_id, lambda node: self)

    @property
    def is_active(self) -> bool:
        return self._epoch is not None and self._epoch == self._log.epoch

    def win(self) -> None:
        """It is elected."""
        self._log.epoch += 1
        epoch = self._epoch = self._log.epoch
        self._uncommitted.clear()
        now_ns = self._world.now_ns
        controller = self._controller
        if controller is None:
            options = ControllerOptions(node_id=self.node.id, cluster_id=CLUSTER_ID, static=_settings())
            controller = self._controller = Controller(options, self._random)
        controller.deactivate(self._log.image)
        self._offset = self._log.image.offset
        records = controller.activate(self._bootstrap, now_ns, in_transaction=False)
        self._append(_without_transaction(records), _nothing)
        self.node.after(TASKS_NS, partial(self._tasks, epoch))

    def lose(self) -> None:
        """Another was elected; it hears of it later."""
        if self._epoch is not None:
            delay_ns = self._random.integer(0, MAX_ZOMBIE_NS)
            self.node.after(delay_ns, partial(self._resign, self._epoch))

    def _resign(self, epoch: int) -> None:
        if self._epoch == epoch:
            self._epoch = None
            self._uncommitted.clear()

    # Requests

    def step(self, event: Event) -> None:
        assert isinstance(event, Received)
        ask = event.message
        if isinstance(ask, Ask):
            self._serve(event.sender, ask)

    def _serve(self, sender: int, ask: Ask) -> None:
        node, request = self.node, ask.request
        assert isinstance(request, Message)
        if self._epoch is None or self._controller is None:
            node.send(sender, Answer(ask.number, None, ErrorCode.NOT_CONTROLLER))
            return
        version = request.schema.versions.highest
        context = Context(self._world.now_ns, self._offset + 1, version, "User:broker")
        try:
            decision = self._controller.decide(request, context)
            answer = partial(node.send, sender, Answer(ask.number, decision.reply))
            self._append(decision.records, answer)
            if decision.accepted is not None:
                decision.accepted(self._offset)
        except KafkaError as refusal:
            node.send(sender, Answer(ask.number, None, refusal.code))
            return
        if isinstance(request, BrokerHeartbeatRequest) and request.current_metadata_offset < self._offset:
            # What it was told was lost, or is on its way.
            self._tell(request.broker_id)

    def _append(self, records: Sequence[Message], answer: Callable[[], None]) -> None:
        controller = self._controller
        assert controller is not None, "it is active"
        if not records and not self._uncommitted:
            answer()
            return
        delta = None
        if records:
            last = self._offset + len(records)
            assert self._epoch is not None, "it is active"
            delta = controller.prepare(records, last, self._epoch, 0)
            controller.apply(delta)
            self._offset = last
        self._uncommitted.append((delta, answer))
        delay_ns = self._random.integer(0, MAX_COMMIT_DELAY_NS)
        self.node.after(delay_ns, partial(self._commit, self._epoch))

    def _commit(self, epoch: int | None) -> None:
        """The first of what is uncommitted is, unless another has won meanwhile."""
        if self._epoch != epoch or not self.is_active or not self._uncommitted:
            return
        delta, answer = self._uncommitted.popleft()
        if delta is not None:
            self._log.commit(delta)
            for broker_id in self._log.brokers:
                self._tell(broker_id)
        answer()

    def _tell(self, broker_id: int) -> None:
        if self.is_active:
            self.node.send(broker_id, Committed(self._log.image))

    # Periodic tasks

    def _tasks(self, epoch: int) -> None:
        controller = self._controller
        if self._epoch != epoch or controller is None:
            return
        self.node.after(TASKS_NS, partial(self._tasks, epoch))
        self._rounds += 1
        while records := controller.fence_stale(self._world.now_ns):
            self._append(records, _nothing)
        while records := controller.continue_shutdowns():
            self._append(records, _nothing)
        if self._rounds % BALANCE_ONE_IN == 0:
            self._append(controller.balance_leaders(), _nothing)
        elif self._rounds % BALANCE_ONE_IN == BALANCE_ONE_IN // 2:
            self._append(controller.elect_unclean_leaders(), _nothing)


def _nothing() -> None:
    """Nobody waits for an answer."""
