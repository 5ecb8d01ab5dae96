"""Clients of a few partitions, and their operator: they write, ask for offsets, delete, move and elect.

Each asks the leader that it knows of, which may be an old one, and does not try again: a batch is written at
most once, so that none may appear twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from barnabas.base.effects import Event, Received
from barnabas.base.errors import ErrorCode
from barnabas.base.units import NS_PER_MS
from barnabas.metadata.image import ConfigResource
from barnabas.metadata.topics import NO_LEADER, Partition
from barnabas.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.simulated.world import Node, World
from barnabas.storage.log.log_reader import LATEST_TIMESTAMP
from barnabas.storage.log.names import TopicPartition
from barnabas.testing.simulation.metadata_node import creation
from barnabas.testing.simulation.replicas.messages import Answer, Delete, Write, Written
from barnabas.testing.simulation.replicas.metadata_log import MetadataLog
from barnabas.testing.simulation.replicas.partition_checker import PartitionChecker
from barnabas.testing.simulation.replicas.replica_server import Asking, Machine

TOPIC = "t"
MIN_ISR = "min.insync.replicas"
ALL, ONE = -1, 1
MAX_COUNT = 3
WRITE_EVERY_NS = 30 * NS_PER_MS
ACT_EVERY_NS = 220 * NS_PER_MS
ELECT_WITHIN_NS = 100 * NS_PER_MS
EXPIRE_NS = 100 * NS_PER_MS
ANSWER_NS = 2_000 * NS_PER_MS
PREFERRED, UNCLEAN = 0, 1
SET, DELETE = 0, 1
# Bytes a second, of the several hundred that are written.
MAX_RATE = 400
HIGH_WATERMARK = -1


class PartitionClients:
    """One node with all clients."""

    def __init__(
        self,
        world: World,
        node_id: int,
        log: MetadataLog,
        controllers: list[int],
        checker: PartitionChecker,
        *,
        brokers: list[int],
        replication_factor: int,
        least_min_isr: int,
        is_unclean: bool,
        is_cluster_wide: bool,
    ) -> None:
        self.names: list[TopicPartition] = []
        self.is_active = True
        # Partitions of which the last write was acknowledged.
        self.served: set[TopicPartition] = set()
        self._world = world
        self._log = log
        self._controllers = controllers
        self._checker = checker
        self._brokers = brokers
        self._replication_factor = replication_factor
        self._least_min_isr = least_min_isr
        self._is_unclean = is_unclean
        self._is_cluster_wide = is_cluster_wide
        self._random = world.random_for("clients")
        self._value = 0
        self._view = log.image
        self._asking: Asking | None = None
        self.node = world.add_node(node_id, self._boot)

    def _boot(self, node: Node) -> PartitionClients:
        self._asking = Asking(node, Machine(node.id))
        node.after(EXPIRE_NS, self._expire)
        return self

    def step(self, event: Event) -> None:
        assert isinstance(event, Received)
        if isinstance(event.message, Answer) and self._asking is not None:
            self._asking.answered(event.message)

    def _expire(self) -> None:
        self.node.after(EXPIRE_NS, self._expire)
        assert self._asking is not None, "it is started"
        self._asking.expire()

    def _ask(self, to: int, request: object, done: Callable[[object, ErrorCode], None]) -> None:
        assert self._asking is not None, "it is started"
        self._asking.ask(to, request, done, ANSWER_NS)

    def _ask_controllers(self, request: Message) -> None:
        for controller in self._controllers:
            self._ask(controller, request, _ignore)

    # The topic

    def create(self, partitions: int, configs: dict[str, str]) -> None:
        self.names = [TopicPartition(TOPIC, index) for index in range(partitions)]
        request = creation(
            TOPIC, partitions=partitions, replication_factor=self._replication_factor, configs=configs
        )
        self._ask_controllers(request)

    @property
    def is_default_set(self) -> bool:
        return MIN_ISR in self._log.image.configs_of(ConfigResource.BROKER, "")

    @property
    def is_created(self) -> bool:
        return self._log.image.topic_named(TOPIC) is not None

    def begin(self) -> None:
        self._view = self._log.image
        for name in self.names:
            self._write_later(name)
        self._act_later()

    def state(self, index: int) -> Partition | None:
        """Of the partition, as the clients know it."""
        topic = self._view.topic_named(TOPIC)
        return None if topic is None else topic.partitions.get(index)

    # Writes

    def _write_later(self, name: TopicPartition) -> None:
        self.node.after(self._random.integer(1, 2 * WRITE_EVERY_NS), partial(self._write, name))

    def _write(self, name: TopicPartition) -> None:
        if not self.is_active:
            return
        self._write_later(name)
        if self._random.integer(0, 4) == 0:
            self._view = self._log.image
        acks = ONE if self._random.integer(0, 3) == 0 else ALL
        self._send(name, acks)
        if self._random.integer(0, 2) == 0:
            self._ask_offsets(name)

    def _send(self, name: TopicPartition, acks: int) -> None:
        state = self.state(name.partition)
        if state is None or state.leader == NO_LEADER:
            self._view = self._log.image
            return
        self._value += 1
        write = Write(name.topic, name.partition, acks, self._random.integer(1, MAX_COUNT), self._value)
        self._ask(state.leader, write, partial(self._written, name, write))

    def _written(self, name: TopicPartition, write: Write, response: object, error: ErrorCode) -> None:
        if error is ErrorCode.NONE and isinstance(response, Written) and response.error is ErrorCode.NONE:
            if write.acks == ALL:
                self._checker.acknowledged(name, response.base_offset, write.value)
                self.served.add(name)
        else:
            self._view = self._log.image

    def finish(self, forsaken: Sequence[TopicPartition]) -> None:
        """After the faults: each partition takes a write, and has a leader whatever that loses."""
        self._view = self._log.image
        for name in forsaken:
            self._elect(name, UNCLEAN)
        for name in self.names:
            if name not in self.served:
                self._send(name, ALL)

    def _ask_offsets(self, name: TopicPartition) -> None:
        state = self.state(name.partition)
        if state is not None and state.leader != NO_LEADER:
            wanted = ListOffsetsRequest.Partition(
                partition_index=name.partition, current_leader_epoch=-1, timestamp=LATEST_TIMESTAMP
            )
            topic = ListOffsetsRequest.Topic(name=name.topic, partitions=[wanted])
            request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic])
            self._ask(state.leader, request, _ignore)

    # The operator

    def _act_later(self) -> None:
        self.node.after(self._random.integer(1, 2 * ACT_EVERY_NS), self._act)

    def _act(self) -> None:
        if not self.is_active:
            return
        self._act_later()
        name = self.names[self._random.integer(0, len(self.names) - 1)]
        match self._random.integer(0, 10):
            case 0 | 1:
                self._reassign(name, self._shuffled(self._brokers)[: self._replication_factor])
            case 2:
                self._reassign(name, None)
            case 3 | 4 | 5:
                self._move_leader(name)
            case 6 if self._is_unclean:
                self._elect(name, UNCLEAN)
            case 6 | 7:
                self._change_min_isr()
            case 8:
                self._throttle(name)
            case _:
                self._delete(name)

    def _shuffled(self, values: Sequence[int]) -> list[int]:
        shuffled = list(values)
        for index in range(len(shuffled) - 1, 0, -1):
            other = self._random.integer(0, index)
            shuffled[index], shuffled[other] = shuffled[other], shuffled[index]
        return shuffled

    def _move_leader(self, name: TopicPartition) -> None:
        """To another replica that is in sync, and perhaps back again soon."""
        state = self.state(name.partition)
        if state is not None and not state.adding_replicas and not state.removing_replicas:
            self._reassign(name, self._shuffled(state.replicas))
        for _ in range(self._random.integer(1, 2)):
            delay_ns = self._random.integer(1, ELECT_WITHIN_NS)
            self.node.after(delay_ns, partial(self._elect, name, PREFERRED))

    def _reassign(self, name: TopicPartition, replicas: list[int] | None) -> None:
        """None cancels a reassignment."""
        partition = AlterPartitionReassignmentsRequest.ReassignablePartition(
            partition_index=name.partition, replicas=replicas
        )
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name=name.topic, partitions=[partition])
        self._ask_controllers(AlterPartitionReassignmentsRequest(topics=[topic]))

    def _elect(self, name: TopicPartition, kind: int) -> None:
        topic = ElectLeadersRequest.TopicPartitions(topic=name.topic, partitions=[name.partition])
        self._ask_controllers(ElectLeadersRequest(election_type=kind, topic_partitions=[topic]))

    def _change_min_isr(self) -> None:
        """Not to the value that all topics have, if machines lose power: that clears the ELR, as in Apache
        Kafka, and leaves whoever is in the ISR, whatever it has lost."""
        if not self._is_cluster_wide or self._least_min_isr < 2:
            self.set_min_isr(self._random.integer(self._least_min_isr, 2))

    def set_min_isr(self, least: int) -> None:
        kind, name = (ConfigResource.BROKER, "") if self._is_cluster_wide else (ConfigResource.TOPIC, TOPIC)
        self._alter(kind, name, {MIN_ISR: str(least)})

    def _throttle(self, name: TopicPartition) -> None:
        """Replicas that are not in sync are fetched slowly, on one of the two sides (KIP-73)."""
        side = ("leader", "follower")[self._random.integer(0, 1)]
        rate = self._random.integer(1, MAX_RATE)
        self._alter(ConfigResource.BROKER, "", {f"{side}.replication.throttled.rate": str(rate)})
        replicas = ("*", "", f"{name.partition}:{self._brokers[0]},{name.partition}:{self._brokers[1]}")
        throttled = replicas[self._random.integer(0, 2)]
        self._alter(ConfigResource.TOPIC, name.topic, {f"{side}.replication.throttled.replicas": throttled})

    def end_throttles(self) -> None:
        for side in ("leader", "follower"):
            self._alter(ConfigResource.BROKER, "", {f"{side}.replication.throttled.rate": None})

    def _alter(self, kind: ConfigResource, name: str, options: Mapping[str, str | None]) -> None:
        """None removes an option."""
        configs = [
            IncrementalAlterConfigsRequest.AlterableConfig(
                name=option, config_operation=DELETE if value is None else SET, value=value
            )
            for option, value in options.items()
        ]
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=configs
        )
        self._ask_controllers(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))

    def _delete(self, name: TopicPartition) -> None:
        state = self.state(name.partition)
        if state is not None and state.leader != NO_LEADER:
            history = self._checker.history(name)
            offset = HIGH_WATERMARK
            if self._random.integer(0, 3):
                offset = self._random.integer(0, history.exposed_end)
            self._ask(state.leader, Delete(name.topic, name.partition, offset), _ignore)


def _ignore(response: object, error: ErrorCode) -> None:
    """Whether it was done is seen elsewhere."""
