"""The controllers of a cluster on ZooKeeper, on a simulated ensemble: elections, lost answers, expiries.

Invariants: only the controller of the last epoch writes; leaders come from the ISR, epochs never fall, ISRs
grow with their leader only; brokers are told what is stored; blocks of producer ids are given out once; a
topic that was created stays until its deletion is asked for.  Once the faults end there is one controller,
what was asked for is done, every partition is led, and every broker knows what the znodes say.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import ZERO_UUID
from barnabas.base.units import NS_PER_MS
from barnabas.broker.modes.zookeeper.znodes import admin, paths
from barnabas.broker.modes.zookeeper.znodes.configs import encode_configs
from barnabas.broker.modes.zookeeper.znodes.topics import Assignment, TopicAssignment
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.random import random_uuid
from barnabas.runtime.simulated.ensemble.ensemble import SimulatedEnsemble
from barnabas.runtime.simulated.links import LinkFaults
from barnabas.runtime.simulated.world import InvariantError, Node, World
from barnabas.runtime.zookeeper.client import SessionState, ZooKeeperClient
from barnabas.runtime.zookeeper.options import ZooKeeperOptions
from barnabas.testing.simulation.metadata_cluster.logged_errors import logged_errors
from barnabas.testing.simulation.registry import scenario
from barnabas.testing.simulation.scenarios.zookeeper.nodes import SESSION_MS, ZooKeeperNode
from barnabas.testing.simulation.scenarios.zookeeper.witness import Witness

TROUBLED_NS = 12_000 * NS_PER_MS
QUIET_NS = 60_000 * NS_PER_MS
ADMINISTRATOR = 100
STEP_NS = 150 * NS_PER_MS
STRIKE_NS = 700 * NS_PER_MS
MAX_DOWN_NS = 4_000 * NS_PER_MS
MAX_TOPICS = 8
# How often the last topic is asked for.
ATTEMPTS = 10


class Cluster:
    """Three nodes, an administrator, and what goes wrong."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random_for("zookeeper-cluster")
        self.ensemble = SimulatedEnsemble(world)
        self.witness = Witness(self.ensemble)
        self.violation: InvariantError | None = None
        self.nodes: dict[int, ZooKeeperNode] = {}
        self.client: ZooKeeperClient | None = None
        self.created: set[str] = set()
        self.deleted: set[str] = set()
        self.blocks: set[int] = set()
        self._number = 0
        self._is_troubled = True
        world.check_always(self._check)
        self.administrator = world.add_node(ADMINISTRATOR, self._boot_administrator)
        self._wait_for_paths()
        for node_id in (1, 2, 3):
            self.nodes[node_id] = ZooKeeperNode(world, self.ensemble, self.witness, self.nodes, node_id)

    def violated(self, violation: InvariantError) -> None:
        self.violation = self.violation or violation

    def _check(self) -> None:
        if self.violation is not None:
            raise self.violation
        self.witness.check()
        for node in self.nodes.values():
            if node.controller is not None and node.controller.active_epoch is not None:
                self.witness.won(node.id, node.controller.active_epoch)
        for name in self.created:
            if name not in self.witness.topics and name not in self.deleted:
                raise InvariantError(f"topic {name} was created, and is gone")

    def _boot_administrator(self, node: Node) -> None:
        options = ZooKeeperOptions("zookeeper/kafka", 10 * SESSION_MS, connection_timeout_ms=SESSION_MS)
        self.client = self.ensemble.client(node, options)
        self.client.start().then(lambda _: None, lambda _: None)

    def _wait_for_paths(self) -> None:
        client = self.client
        assert client is not None, "the administrator has booted"
        self.world.run(QUIET_NS, until=lambda: client.state is SessionState.CONNECTED)
        made = [0]

        def make() -> None:
            for path in paths.PERSISTENT_PATHS:
                client.create(path, make_parents=True).then(lambda _: made.append(1), lambda _: None)

        self.administrator.enter(self.administrator.life, make)
        self.world.run(QUIET_NS, until=lambda: len(made) > len(paths.PERSISTENT_PATHS))

    # What administrators do

    def step(self) -> None:
        if self._is_troubled:
            self.administrator.after(self.random.integer(1, 2 * STEP_NS), self.step)
            actions: list[Callable[[], None]] = [
                self._create,
                self._create_by_hand,
                self._delete,
                self._reassign,
                self._elect,
                self._grow,
                self._take_block,
                self._take_block,
            ]
            actions[self.random.integer(0, len(actions) - 1)]()

    def ask(self, request: Message, version: int, done: Callable[[Message], None]) -> None:
        """Whoever believes to be the controller; an administrator may be wrong about that."""
        active = [
            node
            for node in self.nodes.values()
            if node.controller is not None and node.controller.active_epoch is not None
        ]
        if active:
            target = active[self.random.integer(0, len(active) - 1)]
            target.ask(target.id, request, version, done)

    def _new_name(self) -> str | None:
        if len(self.witness.topics) >= MAX_TOPICS:
            return None
        self._number += 1
        return f"topic-{self._number}"

    def _create(self) -> None:
        name = self._new_name()
        if name is None:
            return
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=self.random.integer(1, 3),
            replication_factor=self.random.integer(1, 3),
            assignments=[],
            configs=[],
        )

        def done(response: Message) -> None:
            if isinstance(response, CreateTopicsResponse) and not response.topics[0].error_code:
                self.created.add(name)

        self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7, done)

    def _create_by_hand(self) -> None:
        name, client = self._new_name(), self.client
        if name is None or client is None:
            return
        replicas = [1, 2, 3][: self.random.integer(1, 3)]
        topic_id = None if self.random.integer(0, 1) else random_uuid(self.random)
        data = TopicAssignment(topic_id, {0: Assignment(tuple(replicas))}).encode()
        client.create(paths.topic_config(name), encode_configs({})).then(lambda _: None, lambda _: None)
        client.create(paths.topic(name), data).then(lambda _: self.created.add(name), lambda _: None)

    def _some_topic(self) -> str | None:
        names = sorted(set(self.witness.topics) - self.deleted)
        return names[self.random.integer(0, len(names) - 1)] if names else None

    def _delete(self) -> None:
        name = self._some_topic()
        if name is None or len(self.witness.topics) < MAX_TOPICS // 2:
            return
        self.deleted.add(name)
        if self.random.integer(0, 1) and self.client is not None:
            self.client.create(paths.delete_topic(name)).then(lambda _: None, lambda _: None)
            return
        topic = DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=ZERO_UUID)
        self.ask(DeleteTopicsRequest(topics=[topic], timeout_ms=1_000), 6, lambda _: None)

    def _reassign(self) -> None:
        name = self._some_topic()
        if name is None:
            return
        replicas = [1, 2, 3]
        start = self.random.integer(0, 2)
        target = (replicas[start:] + replicas[:start])[: self.random.integer(1, 3)]
        if self.random.integer(0, 1) and self.client is not None:
            data = admin.encode_reassignment({(name, 0): target})
            self.client.create(paths.REASSIGN_PARTITIONS, data).then(lambda _: None, lambda _: None)
            return
        partition = AlterPartitionReassignmentsRequest.ReassignablePartition(
            partition_index=0, replicas=target
        )
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=[partition])
        self.ask(AlterPartitionReassignmentsRequest(timeout_ms=0, topics=[topic]), 1, lambda _: None)

    def _elect(self) -> None:
        name = self._some_topic()
        if name is None:
            return
        if self.random.integer(0, 1) and self.client is not None:
            data = admin.encode_partitions([(name, 0)])
            self.client.create(paths.PREFERRED_ELECTION, data).then(lambda _: None, lambda _: None)
            return
        topic = ElectLeadersRequest.TopicPartitions(topic=name, partitions=[0])
        request = ElectLeadersRequest(election_type=0, topic_partitions=[topic], timeout_ms=0)
        self.ask(request, 2, lambda _: None)

    def _grow(self) -> None:
        name = self._some_topic()
        if name is None:
            return
        count = len(self.witness.topics[name].partitions) + 1
        topic = CreatePartitionsRequest.Topic(name=name, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=1_000, validate_only=False)
        self.ask(request, 3, lambda _: None)

    def _take_block(self) -> None:
        node = self.nodes[self.random.integer(1, 3)]
        request = AllocateProducerIdsRequest(broker_id=node.id, broker_epoch=node.broker.broker_epoch)

        def done(response: Message) -> None:
            if isinstance(response, AllocateProducerIdsResponse) and not response.error_code:
                first = response.producer_id_start
                if first in self.blocks:
                    self.violated(InvariantError(f"the producer ids from {first} on were given out twice"))
                self.blocks.add(first)

        self.ask(request, 0, done)

    # What goes wrong

    def strike(self) -> None:
        if not self._is_troubled:
            return
        self.world.agenda.after(self.random.integer(1, 2 * STRIKE_NS), self.strike)
        node = self.nodes[self.random.integer(1, 3)]
        ensemble, random = self.ensemble, self.random
        match random.integer(0, 8):
            case 0:
                self.world.agenda.note(f"n{node.id} killed")
                node.node.crash(power_loss=False)
                self.world.agenda.after(random.integer(1, MAX_DOWN_NS), lambda: _start(node.node))
            case 1:
                node.node.pause(random.integer(1, 2 * SESSION_MS) * NS_PER_MS)
            case 2:
                ensemble.drop_connections(node.id)
            case 3 | 4:
                ensemble.lose_next_answer(node.id)
            case 5:
                ensemble.expire(node.id)
            case 6:
                ensemble.change_leader(random.integer(1, SESSION_MS) * NS_PER_MS)
            case 7:
                number = random.integer(1, 3)
                if all(server.is_up for server in ensemble.servers):
                    ensemble.stop_server(number)
                    self.world.agenda.after(
                        random.integer(1, MAX_DOWN_NS), lambda: ensemble.start_server(number)
                    )
            case 8:
                # An administrator has the controller elected again.
                if self.client is not None:
                    self.client.delete(paths.CONTROLLER).then(lambda _: None, lambda _: None)

    def calm(self) -> None:
        self._is_troubled = False
        self.world.links.faults = LinkFaults()
        for node in self.nodes.values():
            _start(node.node)
        for server in self.ensemble.servers:
            if not server.is_up:
                self.ensemble.start_server(server.number)

    # What must come of it

    def is_settled(self) -> bool:
        return not self.unsettled()

    def unsettled(self) -> str:
        """What is not as it must become; empty if everything is."""
        self.witness.check()
        active = [
            node
            for node in self.nodes.values()
            if node.controller is not None and node.controller.active_epoch == self.witness.controller_epoch
        ]
        if len(active) != 1:
            return f"{len(active)} active controllers of epoch {self.witness.controller_epoch}"
        assert active[0].controller is not None, "it is active"
        if set(active[0].controller.image.brokers) != set(self.nodes):
            return "not all brokers are registered"
        for node in self.nodes.values():
            if node.controller is None or node.controller.controller_id != active[0].id:
                return f"node {node.id} does not know the controller {active[0].id}"
        znodes = self.ensemble.tree.znodes
        for path in (paths.REASSIGN_PARTITIONS, paths.PREFERRED_ELECTION):
            if f"/kafka{path}" in znodes:
                return f"{path} is still there"
        if znodes[f"/kafka{paths.DELETE_TOPICS}"].children:
            return "topics are still to be deleted"
        for name, topic in self.witness.topics.items():
            for number, assigned in topic.partitions.items():
                wrong = self._wrong_with(name, number, assigned)
                if wrong:
                    return f"{name}-{number}: {wrong}"
        return ""

    def _wrong_with(self, name: str, number: int, assigned: Assignment) -> str:
        state = self.witness.states.get((name, number))
        if state is None:
            return "it has no state"
        if assigned.adding or assigned.removing:
            return "it is still being moved"
        if state.leader < 0 or set(state.isr) != set(assigned.replicas):
            return f"{state} of {assigned.replicas}"
        for node in self.nodes.values():
            known = node.broker.known.get((name, number))
            if known is None or (known.leader, known.leader_epoch) != (state.leader, state.leader_epoch):
                return f"broker {node.id} does not know it: {known}"
            told = node.broker.states.get((name, number))
            if node.id in assigned.replicas and (
                told is None or (told.leader, told.leader_epoch) != (state.leader, state.leader_epoch)
            ):
                return f"broker {node.id} does not do its part: {told}"
        return ""


def _start(node: Node) -> None:
    if not node.is_up:
        node.start()


@scenario("zookeeper-controller")
def zookeeper_controller(world: World) -> None:
    """Controllers on a simulated ZooKeeper: lost answers, expiries, new leaders of the ensemble."""
    cluster = Cluster(world)
    with logged_errors(cluster):
        cluster.administrator.after(STEP_NS, cluster.step)
        world.links.faults = LinkFaults.draw(cluster.random)
        world.agenda.after(2 * STRIKE_NS, cluster.strike)
        world.run(TROUBLED_NS)
        cluster.calm()
        world.run(QUIET_NS, until=cluster.is_settled)
        if not cluster.is_settled():
            raise InvariantError(f"after the faults: {cluster.unsettled()}")
        wanted = CreateTopicsRequest.CreatableTopic(
            name="afterwards", num_partitions=1, replication_factor=3, assignments=[], configs=[]
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=1_000)
        codes: list[int] = []

        def done(response: Message) -> None:
            assert isinstance(response, CreateTopicsResponse)
            codes.append(response.topics[0].error_code)

        for _ in range(ATTEMPTS):
            # A connection may still end: a client asks again.
            cluster.ask(request, 7, done)
            world.run(QUIET_NS // ATTEMPTS, until=lambda: bool(codes))
            if codes:
                break
        if codes not in ([ErrorCode.NONE], [ErrorCode.TOPIC_ALREADY_EXISTS]):
            raise InvariantError(f"the cluster does not work after the faults: {codes}")
