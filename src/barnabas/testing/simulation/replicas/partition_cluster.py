"""The brokers, controllers and clients of a seed, their faults, and what must hold in the end."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial

from barnabas.base.units import NS_PER_MS
from barnabas.metadata.topics import Partition
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.world import InvariantError, Node, World
from barnabas.storage.log.log_options import LONG_MAX
from barnabas.storage.log.names import TopicPartition
from barnabas.testing.simulation.nemesis import Nemesis, Strike
from barnabas.testing.simulation.replicas.metadata_log import ControllerNode, MetadataLog
from barnabas.testing.simulation.replicas.partition_checker import PartitionChecker
from barnabas.testing.simulation.replicas.partition_clients import MIN_ISR, PartitionClients
from barnabas.testing.simulation.replicas.replica_server import Machine, ReplicaServer

CONTROLLERS = [100, 101]
CLIENTS = 200
START_NS = 5_000 * NS_PER_MS
QUIET_NS = 15_000 * NS_PER_MS
STEP_NS = 100 * NS_PER_MS
MEAN_PAUSE_NS = 350 * NS_PER_MS
MAX_DOWN_NS = 900 * NS_PER_MS
MAX_PAUSE_NS = 1_500 * NS_PER_MS
MEAN_ELECTION_NS = 1_500 * NS_PER_MS
MEAN_IMAGES_NS = 700 * NS_PER_MS
MAX_IMAGES_LATE_NS = 2_000 * NS_PER_MS
STRIKES = frozenset(
    {Strike.POWER_LOSS, Strike.KILL, Strike.PARTITION, Strike.ONE_WAY_LOSS, Strike.CLOCK_DRIFT}
)


class Durability(Enum):
    """What a broker's disk keeps, and which faults there are; see the scenario."""

    SYNCED = "all is synced before it counts, and every fault is injected"
    CACHED = "nothing is synced in time, and no machine loses its power"
    ELIGIBLE = "nothing is synced in time, and machines lose power if others are in the ISR (KIP-966)"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a seed draws about its cluster."""

    brokers: int
    partitions: int
    replication_factor: int
    min_isr: int
    durability: Durability
    has_elr: bool
    is_unclean: bool
    # Whether min.insync.replicas is that of all topics.
    is_cluster_wide: bool
    # Whether brokers fall behind with the metadata, though the controller responds to them.
    has_late_images: bool

    @classmethod
    def draw(cls, random: SeededRandom) -> Shape:
        durability = list(Durability)[random.integer(0, 2)]
        is_eligible = durability is Durability.ELIGIBLE
        return cls(
            brokers=random.integer(3, 4),
            partitions=1 + (random.integer(0, 2) == 0),
            replication_factor=2 + (random.integer(0, 2) > 0),
            min_isr=2 if is_eligible else random.integer(1, 2),
            durability=durability,
            has_elr=is_eligible or random.integer(0, 1) == 1,
            is_unclean=not is_eligible and random.integer(0, 4) == 0,
            is_cluster_wide=random.integer(0, 3) == 0,
            has_late_images=random.integer(0, 2) == 0,
        )


class PartitionCluster:
    """One cluster."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.shape = shape = Shape.draw(world.random)
        self.brokers = list(range(1, shape.brokers + 1))
        self.machines = {broker_id: Machine(broker_id) for broker_id in self.brokers}
        self.checker = PartitionChecker(world, self.machines, may_be_unclean=shape.is_unclean)
        self.log = self.checker.log = MetadataLog(self.brokers, self.checker.committed)
        self._random = world.random_for("cluster")
        self._controllers = [
            ControllerNode(world, node_id, self.log, has_elr=shape.has_elr) for node_id in CONTROLLERS
        ]
        self._active = 0
        self._controllers[0].win()
        self._is_disturbed = False
        # The broker epochs in which brokers have stopped uncleanly, or lost power, last.
        self._stopped: dict[int, int] = {}
        self._lost_power: dict[int, int] = {}
        for broker_id in self.brokers:
            world.add_node(broker_id, self._boot)
        self.clients = PartitionClients(
            world,
            CLIENTS,
            self.log,
            CONTROLLERS,
            self.checker,
            brokers=self.brokers,
            replication_factor=shape.replication_factor,
            least_min_isr=2 if shape.durability is Durability.ELIGIBLE else 1,
            is_unclean=shape.is_unclean,
            is_cluster_wide=shape.is_cluster_wide,
        )

    def _boot(self, node: Node) -> ReplicaServer:
        flush_messages = 1 if self.shape.durability is Durability.SYNCED else LONG_MAX
        server = ReplicaServer(
            node,
            self.machines[node.id],
            CONTROLLERS,
            self.checker,
            flush_messages=flush_messages,
            kill=lambda: self.crash(node, power_loss=False),
        )
        self.checker.started(server)
        return server

    def start(self) -> None:
        """Brokers are unfenced, and the topic is there."""
        self._wait("the brokers are not unfenced", self._is_unfenced)
        configs = {}
        if self.shape.is_cluster_wide:
            self.clients.set_min_isr(self.shape.min_isr)
            self._wait("the option is not set", lambda: self.clients.is_default_set)
        else:
            configs[MIN_ISR] = str(self.shape.min_isr)
        if self.shape.is_unclean:
            configs["unclean.leader.election.enable"] = "true"
        self.clients.create(self.shape.partitions, configs)
        self._wait("the topic is not created", lambda: self.clients.is_created)
        self.clients.begin()

    def _is_unfenced(self) -> bool:
        known = self.log.image.brokers
        return len(known) == len(self.brokers) and not any(broker.fenced for broker in known.values())

    def _wait(self, otherwise: str, until: object, longest_ns: int = START_NS) -> None:
        assert callable(until)
        end_ns = self.world.now_ns + longest_ns
        while not until():
            if self.world.now_ns >= end_ns:
                raise InvariantError(f"{otherwise}: {self._describe()}")
            self.world.run(STEP_NS)

    # Faults

    def disturb(self) -> None:
        self._is_disturbed = True
        self._elect_later()
        self._disturb_later()
        if self.shape.has_late_images:
            self._hold_images_later()

    def _elect_later(self) -> None:
        self.world.agenda.after(self._random.integer(1, 2 * MEAN_ELECTION_NS), self._elect_controller)

    def _elect_controller(self) -> None:
        if self._is_disturbed:
            self._elect_later()
            self._controllers[self._active].lose()
            self._active = 1 - self._active
            self.world.agenda.note(f"controller {CONTROLLERS[self._active]} wins")
            self._controllers[self._active].win()

    def _disturb_later(self) -> None:
        self.world.agenda.after(self._random.integer(1, 4 * MEAN_PAUSE_NS), self._disturb_one)

    def _disturb_one(self) -> None:
        """A broker is paused, is stopped cleanly, or has a full disk for a while."""
        if not self._is_disturbed:
            return
        self._disturb_later()
        node = self.world.nodes[self.brokers[self._random.integer(0, len(self.brokers) - 1)]]
        if not node.is_up:
            return
        match self._random.integer(0, 4):
            case 0 | 1:
                node.pause(self._random.integer(1, MAX_PAUSE_NS))
            case 2 | 3 if isinstance(node.program, ReplicaServer):
                self.world.agenda.note(f"n{node.id} stops")
                node.program.stop()
            case 4:
                self._fill(node.id, "no space is left")
                delay_ns = self._random.integer(1, MAX_DOWN_NS)
                self.world.agenda.after(delay_ns, partial(self._fill, node.id, None))

    def _fill(self, broker_id: int, reason: str | None) -> None:
        """The disk of a broker is full, or has room again."""
        self.world.agenda.note(f"n{broker_id} full: {reason}")
        self.machines[broker_id].full = reason
        node = self.world.nodes[broker_id]
        if isinstance(node.program, ReplicaServer):
            node.enter(node.life, node.program.space_changed)

    def _hold_images_later(self) -> None:
        self.world.agenda.after(self._random.integer(1, 2 * MEAN_IMAGES_NS), self._hold_images)

    def _hold_images(self) -> None:
        if self._is_disturbed:
            self._hold_images_later()
            broker_id = self.brokers[self._random.integer(0, len(self.brokers) - 1)]
            late_ns = self._random.integer(1, MAX_IMAGES_LATE_NS)
            self.world.agenda.note(f"n{broker_id} has no images")
            self.machines[broker_id].images_from_ns = self.world.now_ns + late_ns

    def crash(self, node: Node, *, power_loss: bool) -> None:
        """End a process, unless more could be lost than the ELR promises to keep (KIP-966).

        See `ReplicatedCluster.stop_uncleanly`.
        """
        if not node.is_up:
            return
        if self.shape.durability is Durability.ELIGIBLE:
            known = self.log.image.brokers
            epochs = {each: known[each].epoch for each in self.brokers if each in known}
            troubled = self._stopped if power_loss else self._lost_power
            others = [each for each in self.brokers if each != node.id]
            if any(each in troubled and troubled[each] == epochs.get(each) for each in others):
                return
            states = self.states().values()
            if any(self._is_last(node.id, state, power_loss=power_loss) for state in states):
                return  # the last known leader would be elected, whatever it has lost
            self._stopped[node.id] = epochs.get(node.id, -1)
            if power_loss:
                self._lost_power[node.id] = epochs.get(node.id, -1)
        if power_loss:
            self.machines[node.id].power_loss(self.world)
        node.crash(power_loss=power_loss)

    @staticmethod
    def _is_last(broker_id: int, state: Partition, *, power_loss: bool) -> bool:
        members = set(state.isr or state.elr)
        if power_loss:
            # A reassignment that is cancelled leaves out who was added; without members the last known leader
            # is elected when it is back.  A kill leaves both all they have.
            members = members.difference(state.adding_replicas) or members or set(state.last_known_elr)
        return members == {broker_id}

    def states(self) -> dict[TopicPartition, Partition]:
        topic = self.log.image.topic_named(self.clients.names[0].topic) if self.clients.names else None
        if topic is None:
            return {}
        return {name: topic.partitions[name.partition] for name in self.clients.names}

    # The end

    def end_well(self) -> None:
        """The faults have ended: writes are acknowledged, replicas are in sync and the same."""
        self._is_disturbed = False
        for machine in self.machines.values():
            machine.images_from_ns = 0
            self._fill(machine.id, None)
        self.clients.is_active = False
        self.clients.served.clear()
        self.clients.end_throttles()
        self._wait("the cluster does not settle", self._is_settled, QUIET_NS)
        for name, history in self.checker.histories.items():
            problem = history.lost()
            if problem is not None:
                raise InvariantError(f"{name}: {problem}")
            self._compare(name)

    def _is_settled(self) -> bool:
        for broker_id in self.brokers:
            if not self.world.nodes[broker_id].is_up:
                self.world.nodes[broker_id].start()  # it has stopped cleanly since
        forsaken = [name for name, each in self.checker.histories.items() if each.is_forsaken]
        if forsaken or len(self.clients.served) < len(self.clients.names):
            self.clients.finish(forsaken)
            return False
        return self._is_unfenced() and all(
            self._is_in_sync(name, state) for name, state in self.states().items()
        )

    def _is_in_sync(self, name: TopicPartition, state: Partition) -> bool:
        if set(state.isr) != set(state.replicas) or state.adding_replicas or state.removing_replicas:
            return False
        ends = set()
        for broker_id in state.replicas:
            server = self.world.nodes[broker_id].program
            hosted = server.replicas.partitions.get(name) if isinstance(server, ReplicaServer) else None
            if hosted is None or hosted.log is None or hosted.leader_epoch != state.leader_epoch:
                return False
            log = hosted.log
            ends.add((log.end_offset, log.high_watermark))
        return len(ends) == 1 and all(end == high_watermark for end, high_watermark in ends)

    def _describe(self) -> str:
        """What may show why nothing goes on."""
        lines = [f"{self.shape}, {len(self.clients.served)} served"]
        lines += [f"n{each.id} fenced" for each in self.log.image.brokers.values() if each.fenced]
        for name, state in self.states().items():
            lines.append(
                f"{name}: leader {state.leader} in epoch {state.leader_epoch}, ISR {state.isr}, ELR"
                f" {state.elr}, {state.last_known_elr} of {state.replicas}, adding {state.adding_replicas}"
            )
            for node in self.world.nodes.values():
                server = node.program
                if isinstance(server, ReplicaServer) and name in server.replicas.partitions:
                    hosted = server.replicas.partitions[name]
                    lines.append(f"n{node.id}: {hosted!r} {hosted.log!r} {hosted.proposal!r}")
        return "; ".join(lines)

    def _compare(self, name: TopicPartition) -> None:
        """The logs of all replicas, from the highest log start on, and behind what was deleted: that may come
        back with a crash, and its epochs were not known any more."""
        batches: dict[int, set[object]] = {}
        epochs: dict[int, set[object]] = {}
        logs = []
        for broker_id in self.states()[name].replicas:
            server = self.world.nodes[broker_id].program
            assert isinstance(server, ReplicaServer)
            log = server.replicas.store.logs[name]
            logs.append((broker_id, log))
        deleted_to = self.checker.history(name).deleted_to
        start = max(deleted_to, *(log.log_start_offset for _, log in logs))
        for broker_id, log in logs:
            batches[broker_id] = {batch for batch in log.stored.batches if batch.end > start}
            epochs[broker_id] = {
                entry for entry in log.epochs.entries if start < entry.start_offset < log.end_offset
            }
        for contents in (batches, epochs):
            first = next(iter(contents.values()))
            for broker_id, content in contents.items():
                if content != first:
                    differing = sorted(content.symmetric_difference(first), key=repr)
                    raise InvariantError(f"{name}: n{broker_id} differs from {start} on: {differing}")


class BrokersFirst(Nemesis):
    """Hits brokers; what is partitioned are all nodes."""

    def __init__(self, cluster: PartitionCluster) -> None:
        self._cluster = cluster
        strikes = STRIKES
        if cluster.shape.durability is Durability.CACHED:
            strikes = STRIKES - {Strike.POWER_LOSS}
        super().__init__(cluster.world, strikes=strikes, mean_pause_ns=MEAN_PAUSE_NS, max_down_ns=MAX_DOWN_NS)

    def _hit(self, strike: Strike) -> None:
        if strike in (Strike.POWER_LOSS, Strike.KILL):
            self._cluster.crash(self._node(), power_loss=strike is Strike.POWER_LOSS)
        else:
            super()._hit(strike)

    def _node(self) -> Node:
        brokers = self._cluster.brokers
        return self._world.nodes[brokers[self._random.integer(0, len(brokers) - 1)]]


class _Errors(logging.Handler):
    """An exception that the code under test logs and survives is a fault."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and self._world.violation is None:
            self._world.violation = InvariantError(f"{record.getMessage()}: {error!r}")


@contextmanager
def errors_count(world: World) -> Iterator[None]:
    """Log nothing below an error: making the lines takes a part of the time."""
    logger, handler = logging.getLogger("barnabas"), _Errors(world)
    level = logger.level
    logger.setLevel(logging.ERROR)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
