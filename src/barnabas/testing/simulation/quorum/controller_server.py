"""A simulated node of a quorum of controllers: the controller over the Raft log, and the node's own image.

The Raft node, the controller, its driver and periodic tasks, and the loader are those of production.  The
store between them is the journal; the requests of brokers and clients are messages like any others, so they
are lost, duplicated and overtaken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol

from barnabas.base.effects import Event, Received
from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.broker.modes.kraft.controller_driver import ControllerDriver
from barnabas.broker.modes.kraft.periodic_tasks import PeriodicTasks
from barnabas.broker.modes.kraft.quorum.live_quorum import LiveQuorum
from barnabas.config import Settings
from barnabas.controller.machine import Controller
from barnabas.controller.state import ControllerOptions
from barnabas.metadata.bootstrap import choose_levels, first_records
from barnabas.metadata.features import metadata_version_named
from barnabas.metadata.loader import MetadataBatch, MetadataLoader
from barnabas.metadata.snapshot import record_version, records_of
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.record_frame import write_metadata_record
from barnabas.protocol.records.metadata import BrokerRegistrationChangeRecord
from barnabas.protocol.schema import Message
from barnabas.raft.messages import Append, DataRecords, HighWatermark, LeaderChanged, UpgradeKraftVersion
from barnabas.runtime.simulated.world import InvariantError
from barnabas.testing.simulation.metadata_node import CLUSTER_ID, configuration
from barnabas.testing.simulation.quorum.images import CommittedImages, metadata_batch, records_of_values
from barnabas.testing.simulation.quorum.server import Observer, RaftServer, halt

SESSION_MS = 900
REQUEST_TIMEOUT_MS = 1_500
RELEASE = "4.1"
FENCE = 1


@dataclass(frozen=True, slots=True, repr=False)
class Ask:
    """A request of a broker or a client to a controller."""

    number: int
    request: Message

    def __repr__(self) -> str:
        return f"ask {self.number} {self.request.schema.name}"


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """A response, or an error without one."""

    number: int
    response: Message | None
    error: ErrorCode = ErrorCode.NONE

    def __repr__(self) -> str:
        return f"answer {self.number} {self.error.name}"


class ControllerObserver(Observer, Protocol):
    """Knows what is committed, as metadata."""

    images: CommittedImages


@cache
def _settings() -> Settings:
    return configuration(
        {
            "broker.session.timeout.ms": SESSION_MS,
            "metadata.max.idle.interval.ms": 500,
            "unclean.leader.election.interval.ms": 1_000,
            "leader.imbalance.check.interval.seconds": 1,
        }
    ).settings


@cache
def _bootstrap() -> Sequence[Message]:
    version, levels = choose_levels({}, metadata_version_named(RELEASE), dynamic_quorum=False, unstable=False)
    return first_records(version, levels)


class ControllerServer(RaftServer):
    """A Raft server whose log is that of a controller."""

    _observer: ControllerObserver

    def prepare(self) -> None:
        node = self.node
        self.loader = MetadataLoader()
        options = ControllerOptions(
            node_id=node.id,
            cluster_id=CLUSTER_ID,
            static=_settings(),
            quorum=LiveQuorum(self.raft, node.clock),
        )
        self._store = _Store(self)
        self.driver = ControllerDriver(
            Controller(options, node.random),
            self._store,
            clock=node.clock,
            timers=node.timers,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            on_fault=partial(halt, node),
        )
        self._tasks = PeriodicTasks(self.driver, _settings(), node.clock, node.timers)
        # When this active controller has heard last of the registration of a broker.
        self.contacts: dict[tuple[int, int], int] = {}
        self._next_offset: int | None = None
        self._elected: int | None = None
        self._reported: int | None = None

    def step(self, event: Event) -> None:
        if isinstance(event, Received) and isinstance(event.message, Ask):
            self._serve(event.sender, event.message)
        else:
            super().step(event)

    def _serve(self, sender: int, ask: Ask) -> None:
        node, request = self.node, ask.request
        if isinstance(request, BrokerHeartbeatRequest):
            self.contacts[request.broker_id, request.broker_epoch] = node.clock.monotonic_ns()

        def refuse(error: BaseException) -> None:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            node.send(sender, Answer(ask.number, None, code))

        self.driver.ask(request, request.schema.versions.highest, "User:client").then(
            lambda response: node.send(sender, Answer(ask.number, response)), refuse
        )

    def committed_state(self) -> tuple[list[bytes], int | None, int]:
        """A snapshot has the records of the image, not those that led to it."""
        image = self.loader.image
        values = [
            write_metadata_record(record, record_version(record, image.metadata_version))
            for record in records_of(image)
        ]
        return values, None if image.offset < 0 else image.epoch, image.offset + 1

    # Notifications of the log

    def apply(self, decided: object) -> None:
        super().apply(decided)
        match decided:
            case LeaderChanged(epoch, leader_id):
                self._elected = epoch if leader_id == self.node.id else None
                lost, self._reported = self._reported, None
                if lost is not None:
                    self._tasks.stop()
                    self.driver.lost(lost)
            case HighWatermark(offset):
                self._commit(offset)

    def _commit(self, high_watermark: int) -> None:
        batches = self._unreported(high_watermark)
        self.loader.load(batches)
        who = f"n{self.node.id}"
        is_published = self.loader.publish()
        images = self._observer.images
        images.check(who, self.loader.image)
        self.driver.committed(batches, is_end=True)
        image = self.driver.controller.image
        is_standby = self.driver.active_epoch is None and is_published
        if is_standby and not images.same(image, self.loader.image):
            raise InvariantError(f"the controller of {who} is at offset {image.offset} with another image")
        if self._elected is not None and not self.failure:
            epoch, self._elected = self._elected, None
            self._reported = epoch
            self.driver.won(epoch)
            self._won()

    def _unreported(self, high_watermark: int) -> list[MetadataBatch]:
        state, batches = self.journal.state, []
        snapshot = state.snapshot
        if snapshot is not None and (self._next_offset is None or self._next_offset < state.start_offset):
            if self._next_offset is not None:
                self.driver.loading_snapshot()
                self.loader.begin_snapshot()
            offset, epoch = snapshot.id.offset, snapshot.id.epoch
            batches.append(MetadataBatch(offset - 1, epoch, 0, records_of_values(snapshot.values), 0))
            self._next_offset = offset
        start = self._next_offset or 0
        for batch in state.batches:
            if batch.end_offset > high_watermark:
                break
            if batch.base_offset >= start:
                batches.append(metadata_batch(batch))
                start = batch.end_offset
        self._next_offset = start
        return batches

    def _won(self) -> None:
        now_ns = self.node.clock.monotonic_ns()
        driver = self.driver
        self.contacts = {
            (broker.id, broker.epoch): now_ns for broker in driver.controller.image.brokers.values()
        }
        activate = partial(
            driver.controller.activate, _bootstrap(), now_ns, in_transaction=driver.in_transaction
        )
        try:
            driver.append(activate, atomic=True)
        except KafkaError:
            return  # it has lost its leadership, or its disk
        self._tasks.start()

    def appending(self, records: Sequence[Message]) -> None:
        """A broker is fenced after a full session in which this controller has not heard of it."""
        now_ns = self.node.clock.monotonic_ns()
        for record in records:
            if isinstance(record, BrokerRegistrationChangeRecord) and record.fenced == FENCE:
                silent_ns = now_ns - self.contacts.get((record.broker_id, record.broker_epoch), 0)
                if silent_ns < SESSION_MS * NS_PER_MS:
                    # Not raised: the driver turns exceptions into answers.
                    self.node.world.violation = InvariantError(
                        f"n{self.node.id} fences broker {record.broker_id}, heard of {silent_ns} ns ago"
                    )


class _Store:
    """See `controller.store.ControllerStore`."""

    def __init__(self, server: ControllerServer) -> None:
        self._server = server

    @property
    def end_offset(self) -> int:
        return self._server.raft.end_offset

    def append(self, epoch: int, records: Sequence[Message], *, level: int, atomic: bool) -> int:
        server = self._server
        if server.raft.leader_epoch != epoch or server.failure is not None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        server.appending(records)
        values = tuple(write_metadata_record(record, record_version(record, level)) for record in records)
        server.request("append", Append(epoch, DataRecords(values, 0)))
        if server.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return self.end_offset - 1

    def upgrade_kraft_version(self, epoch: int, kraft_version: int) -> None:
        self._server.request("upgrade", UpgradeKraftVersion(epoch, kraft_version))
