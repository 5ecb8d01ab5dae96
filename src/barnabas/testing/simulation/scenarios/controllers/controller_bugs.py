"""Bugs that controller-quorum must find: between the log and what a controller says of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from barnabas.broker.modes.kraft.controller_driver import ControllerDriver
from barnabas.controller import machine
from barnabas.controller.brokers import brokers, producer_ids
from barnabas.controller.brokers.heartbeats import Heartbeats
from barnabas.controller.decision import Context, Decision
from barnabas.controller.machine import Controller
from barnabas.controller.state import ControllerState
from barnabas.metadata import snapshot
from barnabas.metadata.cluster import Broker
from barnabas.metadata.features import METADATA_VERSION
from barnabas.metadata.image import Image
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.records.metadata import FeatureLevelRecord
from barnabas.protocol.schema import Message
from barnabas.raft.request_manager import RequestManager
from barnabas.runtime.planted import patched
from barnabas.testing.simulation.registry import planted

SCENARIO = "controller-quorum"
WITHIN_SEEDS = 300


@planted("controllers: answers before the commit", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def answers_before_the_commit() -> Iterator[None]:
    """A controller answers when it has decided."""

    def when_committed(
        self: ControllerDriver,
        reply: Callable[[], None],
        refuse: Callable[[BaseException], None],
        deadline_ns: int | None = None,
    ) -> None:
        reply()

    with patched(ControllerDriver, "when_committed", when_committed):
        yield


@planted("controllers: late means done", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def late_means_done() -> Iterator[None]:
    """A controller that is deposed answers what waits as if it were committed."""

    def refuse_all(self: ControllerDriver, reason: str) -> None:
        waiting, self._waiting = self._waiting, deque()
        self._set_timer()
        for response in waiting:
            response.reply()

    with patched(ControllerDriver, "_refuse_all", refuse_all):
        yield


@planted("controllers: deposed with its decisions", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def deposed_with_its_decisions() -> Iterator[None]:
    """A controller that is deposed keeps the image with what was not committed."""

    def deactivate(self: Controller, committed: Image) -> None:
        self.state.heartbeats.deactivate()

    with patched(Controller, "deactivate", deactivate):
        yield


@planted("controllers: sessions are inherited", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def sessions_are_inherited() -> Iterator[None]:
    """A new active controller counts the time before it was elected against live brokers."""
    healthy = Heartbeats.activate

    def activate(
        self: Heartbeats, brokers: Iterable[Broker], now_ns: int, *, stopped_broker: int | None = None
    ) -> None:
        healthy(self, brokers, now_ns - self.session_timeout_ns // 2, stopped_broker=stopped_broker)

    with patched(Heartbeats, "activate", activate):
        yield


@planted("controllers: fenced and leading", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def fenced_and_leading() -> Iterator[None]:
    """A broker is fenced, and keeps its leaderships."""

    with patched(brokers, "_move_partitions", lambda state, broker: []):
        yield


@planted("controllers: a block for two", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def a_block_for_two() -> Iterator[None]:
    """Blocks of producer ids are not recorded at once: the second of two requests gets the same."""

    def allocate(state: ControllerState, request: AllocateProducerIdsRequest, context: Context) -> Decision:
        decision = producer_ids.allocate_producer_ids(state, request, context)
        keep = context.next_offset % 2
        return Decision(decision.records if keep else [], decision.reply)

    decisions = dict(machine._DECISIONS)
    decisions[AllocateProducerIdsRequest] = allocate
    with patched(machine, "_DECISIONS", decisions):
        yield


@planted("controllers: a snapshot without features", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def a_snapshot_without_features() -> Iterator[None]:
    """A snapshot has metadata.version, and no other feature."""

    def features(image: Image) -> Iterator[Message]:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=image.metadata_version)

    with patched(snapshot, "_features", features):
        yield


@planted("controllers: a snapshot on top", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def a_snapshot_on_top() -> Iterator[None]:
    """A standby that gets a snapshot applies it to the image that it has."""
    with patched(ControllerDriver, "loading_snapshot", lambda self: None):
        yield


@planted(
    "controllers: every response is expected", scenario=SCENARIO, first_seed=120, within_seeds=WITHIN_SEEDS
)
def every_response_is_expected() -> Iterator[None]:
    """A response that comes twice, or after its request was given up, is taken like any other."""
    healthy = RequestManager.received

    def received(self: RequestManager, peer_id: int, correlation_id: int) -> bool:
        healthy(self, peer_id, correlation_id)
        return True

    with patched(RequestManager, "received", received):
        yield
