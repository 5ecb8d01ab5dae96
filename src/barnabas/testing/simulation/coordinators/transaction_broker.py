"""A broker's part in transactions in the simulated world: coordinator, partitions, markers; not a scenario.

Contains the broker's own code for transactions (`broker.transactions`) on simulated shards and real logs, and
its lifecycle.  Producers and invariants belong elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, cast

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.topic_names import CONSUMER_OFFSETS
from barnabas.base.units import NS_PER_MS
from barnabas.batch.control import EndTransactionMarker, build_marker
from barnabas.batch.view import BatchView, batches
from barnabas.broker.coordinators.marker_sender import MarkerSender
from barnabas.broker.coordinators.markers import Markers
from barnabas.broker.coordinators.remote.marker_requests import MarkerRequests
from barnabas.broker.coordinators.remote.verification_requests import VerificationRequests
from barnabas.broker.coordinators.shards import Shards
from barnabas.broker.coordinators.transaction_verifier import TransactionVerifier
from barnabas.broker.coordinators.transactions import Transactions
from barnabas.broker.peers.broker_channel import BrokerChannel
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.replicas.transaction_checks import PartitionErrors, TransactionalWrite
from barnabas.broker.server import Broker
from barnabas.broker.sliced_work import SlicedWork
from barnabas.config.settings import Settings
from barnabas.coordinator.decision import Context, Decision, Marker
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.coordinator.group.offsets.commit import commit_in_transaction
from barnabas.coordinator.txn.machine import TransactionMachine
from barnabas.metadata.image import Image
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.random import Random
from barnabas.runtime.simulated.clock import SimulatedClock
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.world import World
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.producers.producer_append import AppendOrigin
from barnabas.testing.simulation.coordinators.broker_wire import (
    Serve,
    SimulatedChannel,
    serve_markers,
    serve_verification,
)
from barnabas.testing.simulation.coordinators.coordinator_log import ReplicatedLog
from barnabas.testing.simulation.coordinators.shard_host import Cluster, Host, Wire

R = TypeVar("R")
ABORT_EVERY_NS = 150 * NS_PER_MS
MARKER_TIMEOUT_NS = 700 * NS_PER_MS
TXN_OFFSETS_VERSION = 5
READ_BYTES = 1 << 20
# The broker of the transaction coordinator, and another one that may lead partitions.
BROKER_ID, OTHER_BROKER_ID = 1, 2
# Indexes of the usual size would take longer to create than everything else.
INDEX_BYTES = 1 << 10


class DataPartition:
    """A partition's real log, which may be offline for a while and is reopened after a kill."""

    def __init__(self, world: World, name: TopicPartition) -> None:
        self.name = name
        self.is_away = False
        self._clock = SimulatedClock(world.agenda)
        self._random = world.random_for(f"partition {name}")
        self._disk = SimulatedDisk(self._random, wall_ms=self._clock.wall_ms)
        self._disk.make_folder("/data")
        self.log = self._open(is_clean=True)

    def _open(self, *, is_clean: bool) -> Log:
        log = Log.open(
            self._disk,
            self._clock,
            f"/data/{self.name.topic}-{self.name.partition}",
            LogOptions(segment_index_bytes=INDEX_BYTES),
            random=self._random,
            clean=is_clean,
            recovery_point=0,
            log_start_offset=0,
            gaps_end=0,
        )
        log.set_high_watermark(log.end_offset)
        return log

    def kill(self) -> None:
        """The process ends; its writes stay, and are read again."""
        self.log = self._open(is_clean=False)

    def append(self, batch: bytearray, verification: object | None) -> None:
        """Raises KafkaError if it was not appended."""
        self._check_here()
        self.log.append_as_leader(batch, 0, verification=verification)  # type: ignore[arg-type]
        self.log.set_high_watermark(self.log.end_offset)

    def append_marker(self, marker: Marker) -> None:
        self._check_here()
        batch = build_marker(
            EndTransactionMarker(marker.committed, marker.coordinator_epoch),
            timestamp=self._clock.wall_ms(),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
        )
        self.log.append_as_leader(batch, 0, origin=AppendOrigin.COORDINATOR)
        self.log.set_high_watermark(self.log.end_offset)

    def _check_here(self) -> None:
        if self.is_away:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def read_committed(self) -> tuple[list[bytes], set[bytes]]:
        """Values up to the last stable offset: those that a consumer with read_committed gets, and all."""
        committed: list[bytes] = []
        stable: set[bytes] = set()
        offset = self.log.log_start_offset
        while offset < self.log.last_stable_offset:
            result = self.log.read(
                offset, READ_BYTES, upper_bound=self.log.last_stable_offset, read_committed=True
            )
            assert result.slice is not None
            assert result.aborted is not None
            dropped = sorted((txn.first_offset, txn.last_offset, txn.producer_id) for txn in result.aborted)
            for batch in batches(result.slice.read()):
                offset = batch.next_offset
                if batch.is_control:
                    continue
                values = [record.value or b"" for record in batch.records()]
                stable.update(values)
                if not _is_aborted(batch, dropped):
                    committed += values
        return committed, stable


def _is_aborted(batch: BatchView, dropped: list[tuple[int, int, int]]) -> bool:
    return any(
        first <= batch.base_offset <= last and batch.producer_id == producer_id
        for first, last, producer_id in dropped
    )


class _Timers:
    """The loop's timers, on the world's agenda; they end with their process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._is_over = False

    def set(self, key: Hashable, deadline_ns: int, action: Callable[[], None]) -> None:
        self._world.agenda.set((self, key), deadline_ns, partial(self._fire, action))

    def cancel(self, key: Hashable) -> None:
        self._world.agenda.cancel((self, key))

    def stop(self) -> None:
        self._is_over = True

    def _fire(self, action: Callable[[], None]) -> None:
        if not self._is_over:
            action()


class _ProducerIds:
    """Producer id blocks are not part of this scenario."""

    def __init__(self) -> None:
        self._next = 0

    def next(self) -> Promise[int]:
        self._next += 1
        return Promise.of(self._next)


class _Replicas:
    def __init__(self) -> None:
        self.producer_ids = _ProducerIds()


@dataclass
class _BrokerContext:
    """The broker context that the broker's code uses."""

    settings: Settings
    clock: SimulatedClock
    random: Random
    cluster: Cluster

    @property
    def image(self) -> Image:
        return self.cluster.image


class _OneShard:
    """`broker.coordinators.shards.Shards` with a single shard."""

    def __init__(self, life: TransactionsBroker) -> None:
        self._life = life

    def _host(self) -> Host[TransactionMachine]:
        return self._life.host

    def leader_epoch(self, index: int) -> int | None:
        return self._life.coordinator_epoch

    def partition_for(self, key: str) -> int:
        return 0

    def active(self) -> Iterator[int]:
        return iter([0] if self._host().shard is not None else [])

    def submit(self, key: str, decide: Callable[[TransactionMachine, Context], Decision[R]]) -> Promise[R]:
        return self._host().ask(decide)

    submit_to_partition = submit


class SimulatedTransactions(Transactions):
    """The broker's own class, except for its shards and its logs."""

    def __init__(self, world: World, cluster: Cluster, life: TransactionsBroker) -> None:
        clock = SimulatedClock(world.agenda)
        context = _BrokerContext(
            cluster.settings, clock, world.random_for(f"transactions {world.now_ns}"), cluster
        )
        self._broker = cast("Broker", context)
        self._replicas = cast("ReplicaManager", life.replicas)
        self.timers = _Timers(world)
        self._timers = self.timers
        self.shards = cast("Shards[TransactionMachine]", _OneShard(life))
        self.markers = cast("Markers", life)
        self.marker_sender = MarkerSender(
            self._broker,
            BROKER_ID,
            self.shards,
            self.markers,
            MarkerRequests(self._broker, life.channel(life.serve_markers, in_order=True), self._timers),
            self._timers,
        )
        self._sweeps = SlicedWork(self._timers, clock.monotonic_ns, lambda: None)
        self._being_swept = set()
        # Of the partitions on this broker, and of those on the other one.
        self.verifiers = {
            broker_id: TransactionVerifier(
                self._broker,
                broker_id,
                self,
                VerificationRequests(
                    self._broker, life.channel(life.serve_verification, in_order=False), self._timers
                ),
                self._timers,
            )
            for broker_id in (BROKER_ID, OTHER_BROKER_ID)
        }

    def sweep(self) -> None:
        self._sweep_open()

    def loaded(self, machine: TransactionMachine) -> None:
        self._loaded(0, machine)


class TransactionsBroker:
    """The transaction coordinator with its driver, the partitions, and the delivery of markers to them."""

    def __init__(
        self,
        world: World,
        cluster: Cluster,
        groups: Host[GroupMachine],
        partitions: dict[TopicPartition, DataPartition],
        lag_ns: int,
        wire: Callable[[], Wire],
    ) -> None:
        self.world = world
        self._wire = wire
        self.cluster = cluster
        self.partitions = partitions
        self.groups = groups
        self.replicas = _Replicas()
        self.coordinator_epoch = 0
        self.offsets = OffsetsInTransactions(self)
        # While the first shard is loaded, nothing is known of it yet, and nothing is prepared.
        self.driver = SimulatedTransactions(world, cluster, self)
        self.host = Host(world, cluster, ReplicatedLog(world, "transactions", lag_ns), self._make_machine)
        world.agenda.after(ABORT_EVERY_NS, self._sweep)

    def _make_machine(self) -> TransactionMachine:
        driver = self.driver
        return TransactionMachine(driver.loaded, lambda: driver.marker_sender.drop(0))

    def fail_over(self, *, orderly: bool, down_ns: int) -> None:
        """Another process becomes the coordinator: everything in flight here is dropped."""
        if self.host.shard is None:
            return
        old, self.driver = self.driver, SimulatedTransactions(self.world, self.cluster, self)
        self.coordinator_epoch += 1
        self.host.fail_over(orderly=orderly, compact=True, down_ns=down_ns)
        old.marker_sender.stop()
        old.timers.stop()

    def _sweep(self) -> None:
        self.driver.sweep()
        self.world.agenda.after(ABORT_EVERY_NS, self._sweep)

    # The other broker

    def channel(self, serve: Serve, *, in_order: bool) -> BrokerChannel:
        return cast("BrokerChannel", SimulatedChannel(self._wire, serve, in_order=in_order))

    def serve_markers(self, request: Message) -> Promise[Message]:
        return serve_markers(request, self.write)

    def serve_verification(self, request: Message) -> Promise[Message]:
        return serve_verification(request, self.driver)

    def verify(self, name: TopicPartition, write: TransactionalWrite) -> Promise[PartitionErrors]:
        """By the leader of the partition."""
        topic = self.cluster.image.topic_named(name.topic)
        assert topic is not None
        return self.driver.verifiers[topic.partitions[name.partition].leader].verify(write)

    # `broker.txn_markers.Markers`

    def write(self, name: TopicPartition, marker: Marker) -> Promise[ErrorCode]:
        if name.topic == CONSUMER_OFFSETS:
            return self.offsets.end(marker)
        try:
            self.partitions[name].append_marker(marker)
        except KafkaError as error:
            return Promise.of(error.code)
        return Promise.of(ErrorCode.NONE)

    # Produce

    def produce(self, write: TransactionalWrite, batch: bytearray) -> Promise[ErrorCode]:
        """Verify with the coordinator unless its answer is known, then append."""
        answer: Promise[ErrorCode] = Promise()
        (name,) = write.partitions
        partition = self.partitions[name]
        view = BatchView(batch)
        log = partition.log
        if partition.is_away:
            return Promise.of(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            verification = log.start_verification(
                view.producer_id, view.base_sequence, view.producer_epoch, supports_epoch_bump=write.may_add
            )
        except KafkaError as error:
            return Promise.of(error.code)

        def append(errors: PartitionErrors) -> None:
            code = errors.get(name, ErrorCode.NONE)
            if code is ErrorCode.NONE and partition.log is not log:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if code is ErrorCode.NONE:
                try:
                    partition.append(batch, verification)
                except KafkaError as error:
                    code = error.code
            answer.set(code)

        if verification is None:
            append({})
        else:
            self.verify(name, write).then(append, answer.fail)
        return answer


class _Guard:
    """See `storage.producers.producer_append.Verification`."""

    __slots__ = ("bumps", "epoch")

    def __init__(self, epoch: int, bumps: bool) -> None:
        self.epoch = epoch
        self.bumps = bumps


class OffsetsInTransactions:
    """TxnOffsetCommit to the only shard of groups, and markers to it.

    Like a partition's log, it rejects writes whose transaction ended after they were verified.
    """

    NAME = TopicPartition(CONSUMER_OFFSETS, 0)

    def __init__(self, broker: TransactionsBroker) -> None:
        self._broker = broker
        self._asked: dict[int, _Guard] = {}

    def commit(self, request: TxnOffsetCommitRequest, *, may_add: bool) -> Promise[TxnOffsetCommitResponse]:
        answer: Promise[TxnOffsetCommitResponse] = Promise()
        token = self._asked[request.producer_id] = _Guard(request.producer_epoch, may_add)

        def verified(errors: PartitionErrors) -> None:
            code = errors.get(self.NAME, ErrorCode.NONE)
            if code is ErrorCode.NONE and self._asked.get(request.producer_id) is not token:
                code = ErrorCode.INVALID_TXN_STATE
            if code is not ErrorCode.NONE:
                answer.fail(KafkaError(code))
                return
            self._broker.groups.ask(
                lambda machine, context: commit_in_transaction(
                    machine.offsets, request, TXN_OFFSETS_VERSION, context
                )
            ).then(answer.set, answer.fail)

        write = TransactionalWrite(
            request.transactional_id, request.producer_id, request.producer_epoch, [self.NAME], may_add
        )
        self._broker.verify(self.NAME, write).then(verified, answer.fail)
        return answer

    def end(self, marker: Marker) -> Promise[ErrorCode]:
        guard = self._asked.get(marker.producer_id)
        if guard is not None and not (guard.bumps and marker.producer_epoch <= guard.epoch):
            del self._asked[marker.producer_id]
        answer: Promise[ErrorCode] = Promise()

        def respond(code: ErrorCode) -> None:
            if not answer.done:
                answer.set(code)

        def refused(error: BaseException) -> None:
            assert isinstance(error, KafkaError), error
            respond(ErrorCode.NOT_LEADER_OR_FOLLOWER)

        self._broker.groups.ask(lambda _, __: Decision((), None, marker=marker)).then(
            lambda _: respond(ErrorCode.NONE), refused
        )
        # A leader that fails does not respond; the connection to it breaks.
        self._broker.world.agenda.after(MARKER_TIMEOUT_NS, partial(respond, ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return answer
