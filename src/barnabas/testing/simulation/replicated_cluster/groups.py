"""Members of groups whose coordinators move between brokers, and the model of their log.

The members are those of the scenario `coordinator-groups`; here their requests go to whole brokers, and the
model gets what is committed to `__consumer_offsets`, which has one partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.batch.control import batch_marker
from barnabas.batch.view import batches
from barnabas.broker.peers.peers import Peers
from barnabas.coordinator.decision import Context, Decision, Marker, ProducerStamp
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.simulated.world import InvariantError, World
from barnabas.testing.simulation.coordinators.classic_consumer import ClassicConsumer
from barnabas.testing.simulation.coordinators.consumer_protocol import ConsumerProtocolConsumer
from barnabas.testing.simulation.coordinators.coordinator_log import Row, Written
from barnabas.testing.simulation.coordinators.group_book import Book
from barnabas.testing.simulation.coordinators.loners import Loner
from barnabas.testing.simulation.coordinators.members import Client
from barnabas.testing.simulation.replicated_cluster.client import Cluster, ClusterClient
from barnabas.testing.simulation.replicated_cluster.history import Batch

OFFSETS_TOPIC = "__consumer_offsets"
FIND_COORDINATOR, GROUP_KEY = 10, 0
# Key, and the highest version that names topics.
APIS: Mapping[type[Message], tuple[int, int | None]] = {
    OffsetCommitRequest: (8, 9),
    OffsetFetchRequest: (9, 9),
    JoinGroupRequest: (11, None),
    HeartbeatRequest: (12, None),
    LeaveGroupRequest: (13, None),
    SyncGroupRequest: (14, None),
    OffsetDeleteRequest: (47, None),
    ConsumerGroupHeartbeatRequest: (68, None),
}
MOVED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
FIND_AGAIN_NS = 100 * NS_PER_MS
WORK_EVERY_NS = 80 * NS_PER_MS
FIND_TIMEOUT_MS = 1_000
GROUP_OPTIONS: dict[str, object] = {
    "offsets.topic.replication.factor": 3,
    "min.insync.replicas": 2,
    "group.initial.rebalance.delay.ms": 50,
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 1_500,
}

Member = ClassicConsumer | ConsumerProtocolConsumer


class GroupBook(Book):
    """The model, and the numbers of commits."""

    def __init__(self) -> None:
        super().__init__()
        self._last_offset = 0

    def new_offset(self) -> int:
        self._last_offset += 1
        return self._last_offset

    def committed_batch(self, batch: Batch) -> None:
        """Called with every committed batch of the topic's partition, in order."""
        (view,) = batches(batch.content)
        stamp = ProducerStamp(view.producer_id, view.producer_epoch) if view.is_transactional else None
        end, marker, rows = batch_marker(view) if view.is_control else None, None, []
        if end is not None:
            marker = Marker(view.producer_id, view.producer_epoch, end.coordinator_epoch, end.commit)
        else:
            rows = [Row(record.offset, record.key or b"", record.value) for record in view.records()]
        self.take(Written(batch.base_offset, batch.next_offset, rows, stamp, marker))


class GroupClients(ClusterClient):
    """A machine with members of several groups; after a crash they are others."""

    def __init__(self, cluster: Cluster, node_id: int, book: GroupBook, topics: list[str]) -> None:
        self.book = book
        self.may_commit = True
        self.members: list[Member] = []
        self._topics = topics
        self._lives = 0
        super().__init__(cluster, node_id)

    def started(self) -> None:
        self._lives += 1
        self._coordinators: dict[str, int] = {}
        self._connections: dict[str, Peers] = {}
        self._is_finding: set[str] = set()
        for member in self.members:
            member.is_alive = False
        self.members = []
        for number in range(self.random.integer(1, 3)):
            name = f"m{self.id}-{self._lives}-{number}"
            topics = self._topics if self.random.integer(0, 1) else self._topics[:1]
            if self.random.integer(0, 1):
                self.members.append(ConsumerProtocolConsumer(self, "modern", name, topics))
            else:
                self.members.append(ClassicConsumer(self, "classic", name, topics, None))
        self._loner = Loner(self, f"alone-{self.id}", "loner", self._topics)
        # What a coordinator has forgotten is not hidden by the next commit soon.
        self._rare = Loner(self, f"rare-{self.id}", "rare", self._topics)
        self.node.after(WORK_EVERY_NS, self._work)

    def _work(self) -> None:
        self.node.after(WORK_EVERY_NS, self._work)
        for client in (*self.members, self._loner):
            if client.is_alive and self.random.integer(0, 2) == 0 and self.may_commit:
                client.work()
            if client.is_alive and self.random.integer(0, 3) == 0:
                client.fetch(None if self.random.integer(0, 1) else self._topics, stable=True)
        if self.random.integer(0, 25) == 0 and self.may_commit:
            self._rare.work()
        elif self.random.integer(0, 2):
            self._rare.fetch(self._topics, stable=True)
        if self.is_active and self.random.integer(0, 40) == 0:
            member = self.members[self.random.integer(0, len(self.members) - 1)]
            if member.is_alive:
                member.leave()

    @property
    def has_coordinator(self) -> bool:
        return bool(self._coordinators)

    # What members need

    def after(self, delay_ns: int, action: Callable[[], None]) -> None:
        self.node.after(delay_ns, action)

    @property
    def world(self) -> World:
        return self.cluster.world

    def new_offset(self) -> int:
        return self.book.new_offset()

    def partitions_of(self, topic: str) -> list[int]:
        known = self.cluster.reference.image.topic_named(topic)
        return [] if known is None else sorted(known.partitions)

    def topic_of(self, topic_id: Uuid) -> str | None:
        known = self.cluster.reference.image.topics.get(topic_id)
        return None if known is None else known.name

    def call(
        self,
        client: Client,
        request: Message,
        decide: Callable[[GroupMachine, Context], Decision[Any]],
        then: Callable[[Any], None],
        check: Callable[[Any, int], None] | None,
        timeout_ns: int,
        *,
        in_order: bool,
    ) -> None:
        group_id = client.group_id
        coordinator = self._coordinators.get(group_id)
        if coordinator is None:
            self._find(group_id)
            self.node.after(FIND_AGAIN_NS, partial(then, None))
            return
        asked_at, leadership = self.book.position, self._leadership()

        def responded(message: Message | None) -> None:
            value = _value(message)
            if value is None or (isinstance(value, KafkaError) and value.code in MOVED):
                self._coordinators.pop(group_id, None)
            elif check is not None and not isinstance(value, KafkaError):
                # A deposed coordinator that does not know it yet shows what was committed once.
                is_current = leadership == self._leadership() and leadership[0] == coordinator
                self._checked(partial(check, value, asked_at if is_current else 0))
            then(value)

        key, highest = APIS[type(request)]
        peers = self._connections.get(client.name)
        if peers is None:
            peers = self._connections[client.name] = self.connections()
        self.send(coordinator, key, request, responded, timeout_ns // NS_PER_MS, highest, peers)

    def _checked(self, check: Callable[[], None]) -> None:
        try:
            check()
        except InvariantError as violation:
            self.cluster.violated(violation)

    def _leadership(self) -> tuple[int, int]:
        image = self.cluster.reference.image
        topic = image.topic_named(OFFSETS_TOPIC)
        return (-1, -1) if topic is None else (topic.partitions[0].leader, topic.partitions[0].leader_epoch)

    def _find(self, group_id: str) -> None:
        if group_id in self._is_finding:
            return
        self._is_finding.add(group_id)
        request = FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=[group_id])
        self.send(
            self.any_broker(), FIND_COORDINATOR, request, partial(self._found, group_id), FIND_TIMEOUT_MS
        )

    def _found(self, group_id: str, message: Message | None) -> None:
        self._is_finding.discard(group_id)
        if isinstance(message, FindCoordinatorResponse) and not message.coordinators[0].error_code:
            self._coordinators[group_id] = message.coordinators[0].node_id


def _value(message: Message | None) -> Message | KafkaError | None:
    """The response as the coordinator's machine gives it."""
    if isinstance(message, OffsetFetchResponse):
        group = message.groups[0]
        return KafkaError(ErrorCode(group.error_code)) if group.error_code else group
    if isinstance(message, OffsetCommitResponse):
        codes = {row.error_code for topic in message.topics for row in topic.partitions}
        return message if 0 in codes or not codes else KafkaError(ErrorCode(min(codes)))
    code = getattr(message, "error_code", 0)
    if code and not isinstance(message, JoinGroupResponse):
        return KafkaError(ErrorCode(code))
    return message


def is_settled(clients: list[GroupClients]) -> bool:
    """Every member is in its group, and every partition has one owner."""
    by_group: dict[str, list[Member]] = {}
    for client in clients:
        for member in client.members:
            if member.is_alive:
                by_group.setdefault(member.group_id, []).append(member)
    return all(_is_group_settled(clients[0], members) for members in by_group.values())


def _is_group_settled(clients: GroupClients, members: list[Member]) -> bool:
    owned = [partition for member in members for partition in owned_by(clients, member)]
    topics = {topic for member in members for topic in member.topics}
    expected = [(topic, index) for topic in topics for index in clients.partitions_of(topic)]
    return all(member.is_stable for member in members) and sorted(owned) == sorted(expected)


def describe(clients: list[GroupClients]) -> str:
    """For the report of groups that are not settled."""
    return "; ".join(
        f"{member.group_id} {member.name} {'stable' if member.is_stable else 'unsettled'} of {member.topics}"
        f" {owned_by(each, member)}"
        for each in clients
        for member in each.members
        if member.is_alive
    )


def owned_by(clients: GroupClients, member: Member) -> list[tuple[str, int]]:
    if isinstance(member, ClassicConsumer):
        return sorted(member.owned)
    named = [(clients.topic_of(topic_id), index) for topic_id, index in member.owned]
    return sorted((topic, index) for topic, index in named if topic is not None)
