"""The simulated cluster of a seed: servers, topics and clients; what must hold when the faults end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.metadata.image import Image
from barnabas.metadata.initial_voters import InitialVoter
from barnabas.metadata.topics import Partition
from barnabas.replica.replica_selector import RACK_AWARE_SELECTOR
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.network import host_name
from barnabas.runtime.simulated.world import InvariantError, Node, World
from barnabas.testing.simulation.metadata_cluster.reference import ReferenceLog
from barnabas.testing.simulation.metadata_cluster.server import (
    CONTROLLER_PORT,
    OPTIONS,
    ClusterServer,
    directory_of,
)
from barnabas.testing.simulation.replicated_cluster.checker import ReplicationChecker
from barnabas.testing.simulation.replicated_cluster.consumers import Consumer
from barnabas.testing.simulation.replicated_cluster.final import compare_replicas
from barnabas.testing.simulation.replicated_cluster.groups import (
    GROUP_OPTIONS,
    OFFSETS_TOPIC,
    GroupBook,
    GroupClients,
    describe,
    is_settled,
)
from barnabas.testing.simulation.replicated_cluster.history import PartitionHistory
from barnabas.testing.simulation.replicated_cluster.operator import Operator, TopicPlan
from barnabas.testing.simulation.replicated_cluster.producers import CarelessProducer, Producer
from barnabas.testing.simulation.replicated_cluster.transactions import (
    TransactionalProducer,
    check_transactions,
)

FIRST_CLIENT_ID = 100
UNCLEAN_ELECTION = "unclean.leader.election.enable"
QUIET_NS = 25_000 * NS_PER_MS
# Each partition takes as many batches of each producer after the faults have ended.
BATCHES_AT_THE_END = 2
DISTURB_EVERY_NS = 900 * NS_PER_MS
MAX_PAUSE_NS = 2_500 * NS_PER_MS
# When all machines lose power at once, at the latest.
MAX_BLACKOUT_NS = 6_000 * NS_PER_MS

REPLICATION_OPTIONS: dict[str, object] = {
    **OPTIONS,
    "metadata.log.max.record.bytes.between.snapshots": 10_000,
    "internal.metadata.log.segment.bytes": 10_000,
    "metadata.max.retention.bytes": 40_000,
    "broker.session.timeout.ms": 1_000,
    "broker.heartbeat.interval.ms": 200,
    "replica.lag.time.max.ms": 800,
    "replica.fetch.wait.max.ms": 100,
    "replica.fetch.backoff.ms": 60,
    "replica.socket.timeout.ms": 1_000,
    "replica.fetch.max.bytes": 400,
    "replica.high.watermark.checkpoint.interval.ms": 400,
    "log.flush.offset.checkpoint.interval.ms": 700,
    "log.initial.task.delay.ms": 300,
    "leader.imbalance.check.interval.seconds": 3,
    "file.delete.delay.ms": 300,
    "auto.create.topics.enable": "false",
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "offsets.topic.num.partitions": 1,
    "log.cleaner.enable": "false",
}


class Durability(Enum):
    """What a broker's disk keeps, and which faults there are; see the scenario."""

    SYNCED = "all is synced before it counts, and every fault is injected"
    CACHED = "nothing is synced in time, and no machine loses its power"
    ELIGIBLE = "nothing is synced in time, and machines lose power if others are in the ISR (KIP-966)"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a seed draws about its cluster."""

    controllers: int
    combined: bool
    brokers: int
    durability: Durability
    # With the ELR from 4.1 on.
    release: str
    transactional: bool = False
    grouped: bool = False
    # Some topics have unclean.leader.election.enable=true.
    unclean: bool = False
    # Brokers and consumers are in two racks (KIP-36, KIP-392).
    racked: bool = False

    @classmethod
    def draw(
        cls,
        random: SeededRandom,
        *,
        transactional: bool = False,
        grouped: bool = False,
        unclean: bool = False,
        racked: bool = False,
    ) -> Shape:
        controllers = (1, 3)[random.integer(0, 1)]
        combined = controllers == 3 and random.integer(0, 1) == 1
        durability = list(Durability)[random.integer(0, 2)]
        has_elr = durability is Durability.ELIGIBLE or random.integer(0, 1) == 1
        return cls(
            controllers=controllers,
            combined=combined,
            brokers=3 if combined else random.integer(3, 4),
            durability=durability,
            release="4.1" if has_elr else "4.0",
            transactional=transactional,
            grouped=grouped,
            unclean=unclean,
            racked=racked,
        )


def rack_of(number: int) -> str:
    return f"rack{number % 2}"


class ReplicatedCluster:
    """Servers and clients of one seed."""

    def __init__(self, world: World, shape: Shape) -> None:
        self.world = world
        self.shape = shape
        self.reference = ReferenceLog()
        self.checker = ReplicationChecker(world, self.reference)
        self.violation: InvariantError | None = None
        self._random = world.random_for("cluster")
        self._controllers: dict[int, int] = {}
        self._is_disturbed = False
        # The partitions of an image, with those of internal topics and without.
        self._partitions_of: Image | None = None
        self._known_partitions: dict[bool, dict[tuple[Uuid, int], Partition]] = {}
        voters = [
            InitialVoter(node_id, host_name(node_id), CONTROLLER_PORT, directory_of(node_id))
            for node_id in range(1, shape.controllers + 1)
        ]
        options = dict(REPLICATION_OPTIONS)
        options["num.replica.fetchers"] = self._random.integer(1, 2)
        if shape.grouped:
            options.update(GROUP_OPTIONS)
        if shape.durability is Durability.SYNCED:
            options["log.flush.interval.messages"] = 1
        if shape.racked:
            options["replica.selector.class"] = RACK_AWARE_SELECTOR
        self.servers: Sequence[ClusterServer] = [
            self._make_server(node_id, roles, voters, options) for node_id, roles in self._roles()
        ]
        # The broker epochs in which brokers have stopped uncleanly, or lost power, last.
        self._stopped_uncleanly: dict[int, int] = {}
        self._lost_power: dict[int, int] = {}
        self._brokers = {server.id: server for server in self.servers if server.is_broker}
        self.checker.watch(self._brokers)
        self.plans = self._draw_topics()
        unclean = {plan.name for plan in self.plans if UNCLEAN_ELECTION in plan.configs}
        self.checker.may_be_unclean = unclean.__contains__
        self.operator = Operator(self, FIRST_CLIENT_ID, self.plans)
        self.producers = [Producer(self, FIRST_CLIENT_ID + 1), Producer(self, FIRST_CLIENT_ID + 2)]
        self.careless = CarelessProducer(self, FIRST_CLIENT_ID + 3)
        rack = rack_of(world.seed) if shape.racked else ""
        self.consumers = [Consumer(self, FIRST_CLIENT_ID + 4, read_committed=False, rack=rack)]
        self.transactional: list[TransactionalProducer] = []
        if shape.transactional:
            self.transactional = [
                TransactionalProducer(self, FIRST_CLIENT_ID + 5),
                TransactionalProducer(self, FIRST_CLIENT_ID + 6),
            ]
            self.consumers.append(Consumer(self, FIRST_CLIENT_ID + 7, read_committed=True, rack=rack))
        self.groups: list[GroupClients] = []
        if shape.grouped:
            self._add_groups()
        world.check_always(self._check)

    def _make_server(
        self, node_id: int, roles: str, voters: Sequence[InitialVoter], options: dict[str, object]
    ) -> ClusterServer:
        return ClusterServer(
            self.world,
            node_id,
            roles,
            voters,
            dynamic=False,
            reference=self.reference,
            violations=self,
            options={**options, "broker.rack": rack_of(node_id)} if self.shape.racked else options,
            release=self.shape.release,
        )

    def _add_groups(self) -> None:
        book, topics = GroupBook(), [plan.name for plan in self.plans]
        self.checker.on_commit[OFFSETS_TOPIC] = book.committed_batch
        self.groups = [
            GroupClients(self, FIRST_CLIENT_ID + 8, book, topics),
            GroupClients(self, FIRST_CLIENT_ID + 9, book, topics),
        ]

    def _roles(self) -> list[tuple[int, str]]:
        shape = self.shape
        if shape.combined:
            return [(node_id, "broker,controller") for node_id in range(1, shape.controllers + 1)]
        controllers = [(node_id, "controller") for node_id in range(1, shape.controllers + 1)]
        first = shape.controllers + 1
        return controllers + [(node_id, "broker") for node_id in range(first, first + shape.brokers)]

    def _draw_topics(self) -> list[TopicPlan]:
        plans = []
        # The ELR helps only below min.insync.replicas: with 1 of them, the last member of the ISR is elected.
        least = 2 if self.shape.durability is Durability.ELIGIBLE else 1
        for number in range(self._random.integer(1, 3)):
            replication_factor = (1, 2, 2, 3, 3, 3)[self._random.integer(least - 1, 5)]
            configs = {
                "min.insync.replicas": str(min(self._random.integer(least, 2), replication_factor)),
                # Records have the clients' timestamps, and clocks jump.
                "retention.ms": "-1",
                "message.timestamp.after.max.ms": str(2**63 - 1),
                "internal.segment.bytes": str(self._random.integer(400, 1_500)),
            }
            if self.shape.unclean and self._random.integer(0, 3):
                configs[UNCLEAN_ELECTION] = "true"
            plans.append(TopicPlan(f"t{number}", self._random.integer(1, 2), replication_factor, configs))
        return plans

    # Invariants

    def violated(self, violation: InvariantError) -> None:
        if self.violation is None:
            self.violation = violation

    def history(self, name: str, topic_id: Uuid, index: int) -> PartitionHistory:
        return self.checker.history(name, topic_id, index)

    def _check(self) -> None:
        if self.violation is not None:
            raise self.violation
        self.checker.check()

    # Faults

    def disturb(self) -> None:
        """The operator acts; a node is paused or stopped cleanly now and then."""
        self._is_disturbed = True
        self.operator.may_disturb = True
        self._disturb_later()
        if self.shape.durability is Durability.SYNCED and self._random.integer(0, 1) == 1:
            self.world.agenda.after(self._random.integer(1, MAX_BLACKOUT_NS), self._black_out)

    def _disturb_later(self) -> None:
        self.world.agenda.after(self._random.integer(1, 2 * DISTURB_EVERY_NS), self._disturb_one)

    def _black_out(self) -> None:
        """All machines lose power at once (cluster.md 27)."""
        if self._is_disturbed:
            self.world.agenda.note("blackout")
            for server in self.servers:
                server.node.crash(power_loss=True)

    def stop_uncleanly(self, node: Node, *, power_loss: bool) -> None:
        """End a process, unless more could be lost than the ELR promises to keep (KIP-966).

        A broker leaves the ISR and the ELR when it registers after an unclean stop: the controller cannot
        tell whether it has lost anything, and knows nothing of it before.  So while one has lost power and
        has not registered, no other stops uncleanly; and none loses power while another is not registered.
        """
        epoch = self._broker_epoch(node.id)
        if node.id in self._brokers and epoch is not None:
            others = [other for other in self._brokers if other != node.id]
            troubled = self._stopped_uncleanly if power_loss else self._lost_power
            if any(troubled.get(other, -1) == self._broker_epoch(other) for other in others):
                return
            if power_loss and self._is_last(node.id):
                return
            self._stopped_uncleanly[node.id] = epoch
            if power_loss:
                self._lost_power[node.id] = epoch
        node.crash(power_loss=power_loss)

    def _broker_epoch(self, server_id: int) -> int | None:
        broker = self.reference.image.brokers.get(server_id)
        return None if broker is None else broker.epoch

    def _is_last(self, server_id: int) -> bool:
        """Whether a partition has no other member of its ISR, or of its ELR if that is empty."""
        for state in self._partitions().values():
            counts = server_id in state.isr or server_id in state.elr
            if counts and not set(state.isr or state.elr) - {server_id}:
                return True
        return False

    def _disturb_one(self) -> None:
        if not self._is_disturbed:
            return
        server = self.servers[self._random.integer(0, len(self.servers) - 1)]
        if self._random.integer(0, 1) == 0:
            server.stop()
        elif server.node.is_up:
            server.node.pause(self._random.integer(1, MAX_PAUSE_NS))
        self._disturb_later()

    # The end

    def await_topics(self) -> None:
        """Before the faults begin."""
        self._wait(
            lambda: self.operator.is_complete and all(clients.has_coordinator for clients in self.groups),
            "the topics were not created",
        )

    def end_well(self) -> None:
        """The faults have ended: clients are served, replicas are in sync, their logs are the same."""
        self._is_disturbed = False
        self.operator.may_disturb = False
        self._await_progress()
        self._await_groups()
        for client in (*self.producers, self.careless, *self.transactional):
            client.is_active = False
        self._wait(
            lambda: (
                all(producer.is_idle for producer in self.producers)
                and all(producer.is_idle for producer in self.transactional)
            ),
            "not every batch was acknowledged",
        )
        # Where offsets are committed all the time, the replicas may never have the same end.
        for clients in self.groups:
            clients.may_commit = False
        self._wait(self._has_no_transactions, "a transaction has no end")
        check_transactions(self.transactional, self._live_histories())
        self._wait(self._is_in_sync, "not every replica is in sync")
        compare_replicas(self.reference.image, {server.id: server for server in self.servers}, self.checker)
        self._wait(self._is_consumed, "not everything was consumed")
        for server in self.servers:
            if server.broker is not None and server.broker.metadata.publish_errors:
                raise InvariantError(f"n{server.id}: a publisher failed")

    def _await_progress(self) -> None:
        known = [dict(producer.acknowledged) for producer in self.producers]

        committed = [producer.committed_count for producer in self.transactional]

        def progressed() -> bool:
            if any(
                producer.committed_count <= before
                for producer, before in zip(self.transactional, committed, strict=True)
            ):
                return False
            return self.operator.is_complete and all(
                producer.acknowledged.get(key, 0) >= before.get(key, 0) + BATCHES_AT_THE_END
                for producer, before in zip(self.producers, known, strict=True)
                for key in self._partitions(internal=False)
            )

        self._wait(progressed, "a partition takes no records after the faults ended")

    def _await_groups(self) -> None:
        """Members own all partitions, and can commit."""
        for clients in self.groups:
            clients.is_active = False
        self._wait(lambda: is_settled(self.groups), "the groups are not settled")
        members = [member for clients in self.groups for member in clients.members if member.is_alive]
        before = [member.commits_confirmed for member in members]
        # Partitions may still move: a member may have been forgotten with its coordinator.
        self._wait(
            lambda: (
                is_settled(self.groups)
                and all(
                    member.commits_confirmed > known or not member.owned
                    for member, known in zip(members, before, strict=True)
                )
            ),
            "a member cannot commit",
        )

    def _partitions(self, *, internal: bool = True) -> dict[tuple[Uuid, int], Partition]:
        image = self.reference.image
        if self._partitions_of is not image:
            # Asked for after every event.
            self._partitions_of = image
            for is_internal in (False, True):
                self._known_partitions[is_internal] = {
                    (topic_id, index): state
                    for topic_id, topic in sorted(image.topics.items())
                    if is_internal or not topic.name.startswith("__")
                    for index, state in topic.partitions.items()
                }
        return self._known_partitions[internal]

    def _live_histories(self) -> dict[tuple[Uuid, int], PartitionHistory]:
        """Without those of deleted topics."""
        live = self._partitions()
        return {key: history for key, history in self.checker.histories.items() if key in live}

    def _has_no_transactions(self) -> bool:
        return not any(history.has_open_transactions for history in self._live_histories().values())

    def _is_in_sync(self) -> bool:
        for (topic_id, index), state in self._partitions().items():
            if set(state.isr) != set(state.replicas) or state.leader < 0 or state.adding_replicas:
                return False
            ends = set()
            for server_id in state.replicas:
                copy = self.checker.copy(server_id, topic_id, index)
                if copy is None:
                    return False
                ends |= {copy.end_offset, copy.high_watermark}
            if len(ends) != 1:
                return False
        return True

    def _is_consumed(self) -> bool:
        for key in self._partitions(internal=False):
            history = self.checker.histories.get(key)
            if history is None:
                continue  # created again at the end: nobody has written to it
            for consumer in self.consumers:
                position = consumer.positions.get(key)
                if position is None or position.offset < history.end_offset:
                    return False
        return True

    def _restart(self) -> None:
        for node in self.world.nodes.values():
            if not node.is_up:
                node.start()

    def _wait(self, condition: Callable[[], bool], otherwise: str) -> None:
        def holds() -> bool:
            self._restart()
            return condition()

        self.world.run(QUIET_NS, until=holds)
        if not holds():
            raise InvariantError(f"{otherwise}: {self._describe()}")

    def _describe(self) -> str:
        states = []
        for (topic_id, index), state in self._partitions().items():
            history = self.checker.histories.get((topic_id, index))
            copies = {
                server_id: (copy.high_watermark, copy.end_offset, "L" if copy.is_leader else "F")
                for server_id in state.replicas
                if (copy := self.checker.copy(server_id, topic_id, index)) is not None
            }
            name = "?" if history is None else history.name
            states.append(
                f"{name} leader {state.leader} epoch {state.leader_epoch} isr {state.isr} of"
                f" {state.replicas} elr {state.elr} {copies}"
            )
        down = [server.id for server in self.servers if not server.is_started]
        brokers = {
            broker.id: (broker.epoch, broker.fenced) for broker in self.reference.image.brokers.values()
        }
        groups = f"; groups: {describe(self.groups)}" if self.groups else ""
        return f"{'; '.join(states)}; not started {down}; brokers {brokers}{groups}"
