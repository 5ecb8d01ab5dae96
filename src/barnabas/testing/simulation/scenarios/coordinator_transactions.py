"""Transactions: producers crash and are replaced, partitions go offline, coordinators change.

Invariants: a consumer with read_committed gets either everything that a transaction wrote to a partition, or
nothing; never anything of a transaction that cannot be committed.  And after the faults end: every
transaction has ended in all its partitions and for its offsets alike, with the result that its producer got.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.base.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from barnabas.base.units import NS_PER_MS
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.coordinator.txn.transaction import EPOCH_BUMP_LEVEL, TRANSACTION_VERSION
from barnabas.metadata.delta import Delta
from barnabas.metadata.features import METADATA_VERSION, metadata_version_named
from barnabas.protocol.records.metadata import (
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from barnabas.runtime.simulated.world import InvariantError, World
from barnabas.storage.log.names import TopicPartition
from barnabas.testing.simulation.coordinators.coordinator_log import ReplicatedLog
from barnabas.testing.simulation.coordinators.group_book import Book
from barnabas.testing.simulation.coordinators.producers import (
    GROUP,
    Attempt,
    Outcome,
    Producer,
    Producers,
)
from barnabas.testing.simulation.coordinators.shard_host import (
    Cluster,
    Faults,
    Host,
    Wire,
    WireFaults,
    no_silent_errors,
)
from barnabas.testing.simulation.coordinators.transaction_broker import (
    BROKER_ID,
    OTHER_BROKER_ID,
    DataPartition,
    TransactionsBroker,
)
from barnabas.testing.simulation.registry import scenario

TROUBLED_NS = 2_500 * NS_PER_MS
QUIET_NS = 20_000 * NS_PER_MS
MEAN_PAUSE_NS = 200 * NS_PER_MS
LOOK_EVERY_NS = 300 * NS_PER_MS
TOPIC, PARTITIONS = "sink", 2
OPTIONS = {"offsets.retention.check.interval.ms": "60000"}


class TransactionsLife:
    """Two partitions on two brokers, one coordinator of each kind, some producers, and faults."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random_for("trouble")
        self.cluster = Cluster.of(OPTIONS)
        bumps = self.random.integer(0, 3) > 0
        self._make_topics(EPOCH_BUMP_LEVEL if bumps or self.random.integer(0, 1) else 0)
        self.book = Book()
        lag_ns = (0, 3, 15)[self.random.integer(0, 2)] * NS_PER_MS
        log = ReplicatedLog(world, "groups", lag_ns)
        log.on_commit = Faults.watch(world, self.book.take)
        self.groups = Host(world, self.cluster, log, lambda: GroupMachine(0))
        names = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        self.partitions = {name: DataPartition(world, name) for name in names}
        self.wire = Wire(world, self._draw_faults())
        self.broker = TransactionsBroker(
            world, self.cluster, self.groups, self.partitions, lag_ns, lambda: self.wire
        )
        self.producers = Producers(world, self.broker, self.wire, bumps=bumps)
        self.alive: list[Producer] = []
        self.is_troubled = True
        self._number = 0
        for index in range(self.random.integer(1, 3)):
            self._start(f"tx-{index}")
        self._troubles = self._draw_troubles()
        world.agenda.after(self.random.integer(0, 2 * MEAN_PAUSE_NS), self._trouble)
        world.agenda.after(LOOK_EVERY_NS, self._look)

    def _make_topics(self, level: int) -> None:
        delta = Delta(self.cluster.image)
        for broker_id in (BROKER_ID, OTHER_BROKER_ID):
            delta.replay(_broker(broker_id))
        newest = metadata_version_named("4.1-IV1").level
        delta.replay(FeatureLevelRecord(name=METADATA_VERSION, feature_level=newest))
        if level:
            delta.replay(FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=level))
        for number, (name, count) in enumerate(
            ((TOPIC, PARTITIONS), (CONSUMER_OFFSETS, 1), (TRANSACTION_STATE, 1)), 1
        ):
            topic_id = Uuid.from_words(7, number)
            delta.replay(TopicRecord(name=name, topic_id=topic_id))
            for index in range(count):
                leader = BROKER_ID
                if name != TRANSACTION_STATE and self.random.integer(0, 1):
                    leader = OTHER_BROKER_ID
                delta.replay(_partition(topic_id, index, leader))
        self.cluster.image = delta.image

    def _draw_faults(self) -> WireFaults:
        lost, twice, slow = (
            self.random.fraction() * limit * self.random.integer(0, 1) for limit in (0.1, 0.15, 0.1)
        )
        return WireFaults(lost, twice, slow, max_slow_ns=600 * NS_PER_MS)

    def _draw_troubles(self) -> list[Callable[[], None]]:
        known = [
            self._fail_over_transactions,
            self._fail_over_groups,
            self._crash_producer,
            self._replace_producer,
            self._partition_goes,
            self._kill_partition,
            self._refuse_appends,
        ]
        return [trouble for trouble in known if self.random.fraction() < 0.7] or known

    # Trouble

    def _start(self, transactional_id: str) -> None:
        self._number += 1
        self.alive.append(Producer(self.producers, transactional_id, f"p{self._number}"))

    def _trouble(self) -> None:
        if self.is_troubled:
            self._troubles[self.random.integer(0, len(self._troubles) - 1)]()
            self._restart_producers()
            self.world.agenda.after(self.random.integer(1, 2 * MEAN_PAUSE_NS), self._trouble)

    def _restart_producers(self) -> None:
        """A producer that crashed or was replaced is followed by another with its id, sometimes at once."""
        removed = {producer.transactional_id for producer in self.alive if not producer.is_alive}
        self.alive = [producer for producer in self.alive if producer.is_alive]
        for transactional_id in sorted(removed - {producer.transactional_id for producer in self.alive}):
            if self.random.integer(0, 1):
                self._start(transactional_id)
            else:
                # Its open transaction is left to time out.
                delay_ns = self.random.integer(0, 1_500 * NS_PER_MS)
                self.world.agenda.after(delay_ns, partial(self._start, transactional_id))

    def _one(self) -> Producer | None:
        alive = [producer for producer in self.alive if producer.is_alive]
        return alive[self.random.integer(0, len(alive) - 1)] if alive else None

    def _crash_producer(self) -> None:
        producer = self._one()
        if producer is not None:
            producer.crash()

    def _replace_producer(self) -> None:
        """Another one starts with its id while it is still running."""
        producer = self._one()
        if producer is not None:
            self._start(producer.transactional_id)

    def _fail_over_transactions(self) -> None:
        self.broker.fail_over(
            orderly=self.random.integer(0, 1) == 1, down_ns=self.random.integer(0, 300 * NS_PER_MS)
        )

    def _fail_over_groups(self) -> None:
        self.groups.fail_over(
            orderly=self.random.integer(0, 1) == 1,
            compact=True,
            down_ns=self.random.integer(0, 300 * NS_PER_MS),
        )

    def _any_partition(self) -> DataPartition:
        return self.partitions[TopicPartition(TOPIC, self.random.integer(0, PARTITIONS - 1))]

    def _partition_goes(self) -> None:
        partition = self._any_partition()
        partition.is_away = True
        self.world.agenda.after(self.random.integer(0, 400 * NS_PER_MS), lambda: self._come_back(partition))

    @staticmethod
    def _come_back(partition: DataPartition) -> None:
        partition.is_away = False

    def _kill_partition(self) -> None:
        self._any_partition().kill()

    def _refuse_appends(self) -> None:
        logs = [self.groups.log, self.broker.host.log]
        log = logs[self.random.integer(0, 1)]
        log.refuses = 0.5
        self.world.agenda.after(self.random.integer(0, 200 * NS_PER_MS), lambda: self._take_appends(log))

    @staticmethod
    def _take_appends(log: ReplicatedLog) -> None:
        log.refuses = 0.0

    # Invariants

    def _look(self) -> None:
        self._check_partitions()
        self.world.agenda.after(LOOK_EVERY_NS, self._look)

    def _check_partitions(self) -> None:
        """A partition returns either everything that a transaction wrote, as far as it is stable, or
        nothing."""
        for name, partition in self.partitions.items():
            seen, stable = partition.read_committed()
            for number, values in _by_attempt(seen).items():
                attempt = self.producers.attempts[number]
                written = attempt.values.get(name, set()) & stable
                if not attempt.may_be_committed:
                    raise InvariantError(f"{name} shows {sorted(values)} of a transaction without a commit")
                if not written <= values:
                    raise InvariantError(f"{name} shows {sorted(values)} of {sorted(written)}: it is torn")

    def end_well(self) -> None:
        self.is_troubled = False
        self.wire.faults = WireFaults()
        for log in (self.groups.log, self.broker.host.log):
            self._take_appends(log)
        for partition in self.partitions.values():
            self._come_back(partition)
        self._restart_producers()
        self.world.run(1_500 * NS_PER_MS)
        for producer in self.alive:
            producer.stop_after_this()
        self.world.run(QUIET_NS, until=self._is_over)
        if not self._is_over():
            raise InvariantError(f"transactions do not end: {self._open()}")
        self._check_partitions()
        self._check_ends()

    def _open(self) -> list[str]:
        machine = self.broker.host.machine
        states = [] if machine is None else [str(machine.transactions[name]) for name in machine._open]
        stable = [
            f"{name}: {partition.log.last_stable_offset} of {partition.log.end_offset}"
            for name, partition in self.partitions.items()
        ]
        return [
            *states,
            *stable,
            f"{len(self.broker.driver.marker_sender)} transactions with pending markers",
        ]

    def _is_over(self) -> bool:
        """No producer writes, no transaction is open, and everything that was written is stable."""
        machine, groups = self.broker.host.machine, self.groups.machine
        if machine is None or groups is None or any(not p.is_idle for p in self.alive if p.is_alive):
            return False
        return (
            all(transaction.state.is_at_rest for transaction in machine.transactions.values())
            and all(data.log.last_stable_offset == data.log.end_offset for data in self.partitions.values())
            and not groups.offsets.store.has_open_transactions
        )

    def _check_ends(self) -> None:
        seen: dict[int, set[TopicPartition]] = {}
        for name, partition in self.partitions.items():
            for number in _by_attempt(partition.read_committed()[0]):
                seen.setdefault(number, set()).add(name)
        committed = {row[3] for row in self.book.committed if row[0] == GROUP}
        for number, attempt in self.producers.attempts.items():
            self._check_end(attempt, seen.get(number, set()), number in committed)

    def _check_end(self, attempt: Attempt, shown_in: set[TopicPartition], is_offset_shown: bool) -> None:
        written = {name for name, values in attempt.values.items() if values}
        whole = written <= shown_in and (attempt.offset is None or is_offset_shown)
        nothing = not shown_in and not is_offset_shown
        if attempt.outcome is Outcome.COMMITTED and not whole:
            raise InvariantError(f"{attempt} was committed; shown in {shown_in}, offset {is_offset_shown}")
        if attempt.outcome is Outcome.ABORTED and not nothing:
            raise InvariantError(f"{attempt} was aborted; shown in {shown_in}, offset {is_offset_shown}")
        if not whole and not nothing:
            raise InvariantError(f"{attempt} is torn: shown in {shown_in}, offset {is_offset_shown}")


def _by_attempt(values: list[bytes]) -> dict[int, set[bytes]]:
    by_attempt: dict[int, set[bytes]] = {}
    for value in values:
        known = by_attempt.setdefault(int(value.partition(b"/")[0]), set())
        if value in known:
            raise InvariantError(f"{value!r} was written twice")
        known.add(value)
    return by_attempt


def _broker(broker_id: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=Uuid.from_words(8, broker_id),
        broker_epoch=1,
        end_points=[],
        features=[],
        rack=None,
        fenced=False,
    )


def _partition(topic_id: Uuid, number: int, leader: int) -> PartitionRecord:
    return PartitionRecord(
        topic_id=topic_id,
        partition_id=number,
        replicas=[leader],
        isr=[leader],
        removing_replicas=[],
        adding_replicas=[],
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        directories=[ZERO_UUID],
    )


@scenario("coordinator-transactions")
def coordinator_transactions(world: World) -> None:
    """Transactions are visible entirely or not at all, whatever happens to producers, partitions and
    coordinators."""
    with no_silent_errors():
        life = TransactionsLife(world)
        world.run(TROUBLED_NS)
        life.end_well()
