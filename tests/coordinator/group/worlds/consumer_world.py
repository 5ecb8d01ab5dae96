"""Consumer groups without a broker: members of both protocols, topics, and invariants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from immutables import Map

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import UNASSIGNED_DIR, Uuid
from barnabas.coordinator.group.caller import Caller
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.heartbeat import HeartbeatContext
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import ConfigResource
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.record_frame import write_versioned
from barnabas.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.records.metadata import PartitionRecord, RemoveTopicRecord, TopicRecord
from tests.coordinator.group.worlds.classic_world import GROUP, ClassicWorld
from tests.coordinator.shard_world import value_of

SESSION_MS = 45_000
HEARTBEAT_MS = 5_000
REBALANCE_MS = 60_000
CALLER = Caller("client", "/127.0.0.1", 1)

Owned = dict[str, list[int]]


class ConsumerWorld(ClassicWorld):
    def __init__(self, settings: Mapping[str, str] | None = None, **topics: int) -> None:
        super().__init__(settings)
        self._topic_count = 0
        # Topics that members may not see.
        self.hidden: set[str] = set()
        for name, partitions in (topics or {"t": 4}).items():
            self.topic(name, partitions)

    # The cluster

    def topic(self, name: str, partitions: int) -> None:
        """Create it, or add partitions."""
        delta = Delta(self.image)
        known = self.image.topic_named(name)
        if known is None:
            self._topic_count += 1
            topic_id = Uuid.from_words(1, self._topic_count)
            delta.replay(TopicRecord(name=name, topic_id=topic_id))
        else:
            topic_id = known.id
        for number in range(len(known.partitions) if known else 0, partitions):
            delta.replay(
                PartitionRecord(
                    topic_id=topic_id,
                    partition_id=number,
                    replicas=[1],
                    isr=[1],
                    removing_replicas=[],
                    adding_replicas=[],
                    leader=1,
                    directories=[UNASSIGNED_DIR],
                )
            )
        self._committed(delta)

    def delete_topic(self, name: str) -> None:
        delta = Delta(self.image)
        delta.replay(RemoveTopicRecord(topic_id=self.image.topic_ids[name]))
        self._committed(delta)

    def _committed(self, delta: Delta) -> None:
        delta.at(self.image.offset + 1, 1, 0)
        self.image = delta.image
        self.shard.metadata_changed(delta, self.context, self.now_ms)

    def set_group_option(self, name: str, value: str) -> None:
        self.with_image(configs=Map({(ConfigResource.GROUP, GROUP): Map({name: value})}))

    # Members

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        names: list[str] | None = None,
        owned: Owned | None = None,
        **more: Any,
    ) -> Any:
        """Returns the response, or the KafkaError."""
        if epoch == 0:
            more = {"rebalance_timeout_ms": REBALANCE_MS, **more}
            owned = owned or {}
            if "subscribed_topic_regex" not in more:
                names = ["t"] if names is None else names
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=names,
            topic_partitions=None if owned is None else self._partitions(owned),
            **more,
        )
        requester = HeartbeatContext(CALLER, lambda topic: topic not in self.hidden)
        response = value_of(
            self.ask(lambda machine, context: machine.consumer.heartbeat(request, requester, context))
        )
        if isinstance(response, ConsumerGroupHeartbeatResponse):
            assert response.throttle_time_ms == 0, "the broker throttles, not the coordinator"
        return response

    def _partitions(self, owned: Owned) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
        return [
            ConsumerGroupHeartbeatRequest.TopicPartitions(
                topic_id=self.image.topic_ids[name], partitions=partitions
            )
            for name, partitions in owned.items()
        ]

    def error(self, *args: Any, **more: Any) -> ErrorCode:
        response = self.beat(*args, **more)
        assert isinstance(response, KafkaError), response
        return response.code

    def epoch_and_assignment(self, response: ConsumerGroupHeartbeatResponse) -> tuple[int, Owned | None]:
        """Epoch and assignment."""
        assert isinstance(response, ConsumerGroupHeartbeatResponse), response
        assert response.error_code == ErrorCode.NONE
        if response.assignment is None:
            return response.member_epoch, None
        return response.member_epoch, {
            self.image.topics[topic.topic_id].name: topic.partitions
            for topic in response.assignment.topic_partitions
        }

    def settle(self, *members: str) -> None:
        """Heartbeats of well-behaved members until nothing changes any more."""
        for _ in range(10):
            before = durable(self.consumers)
            for member_id in members:
                member = self.consumers.members[member_id]
                owned = {
                    self.image.topics[topic].name: sorted(partitions)
                    for topic, partitions in member.assigned.items()
                    if topic in self.image.topics
                }
                response = self.beat(member_id, member.member_epoch, owned=owned)
                assert isinstance(response, ConsumerGroupHeartbeatResponse), response
            if durable(self.consumers) == before:
                return
        raise AssertionError("it does not come to rest")

    # Queries

    @property
    def consumers(self) -> ConsumerGroup:
        return self.machine.table.find_kind(GROUP, ConsumerGroup)

    def owned(self, member_id: str) -> Owned:
        return self._named(self.consumers.members[member_id].assigned)

    def target(self, member_id: str) -> Owned:
        return self._named(self.consumers.target[member_id])

    def _named(self, assignment: Mapping[Uuid, frozenset[int]]) -> Owned:
        return {self.image.topics[topic].name: sorted(numbers) for topic, numbers in assignment.items()}

    def subscription(self, *topics: str, owned: Owned | None = None) -> bytes:
        """The subscription of a classic member."""
        message = ConsumerProtocolSubscription(
            topics=list(topics),
            owned_partitions=[
                ConsumerProtocolSubscription.TopicPartition(topic=name, partitions=numbers)
                for name, numbers in (owned or {}).items()
            ],
        )
        return write_versioned(message, 1)

    def classic_assignment(self, data: bytes) -> Owned:
        message, _ = ConsumerProtocolAssignment.decode_from(data, 2, 1)
        return {topic.topic: topic.partitions for topic in message.assigned_partitions}


def assignment_bytes(owned: Owned) -> bytes:
    """The assignment that the leader of a classic group gives a member."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=name, partitions=numbers)
            for name, numbers in owned.items()
        ]
    )
    return write_versioned(message, 1)


def durable(group: ConsumerGroup) -> dict[str, Any]:
    """The state that must survive a restart."""
    skipped = ("metadata_fresh_until_ms",)
    return {name: _copy(value) for name, value in vars(group).items() if name not in skipped}


def _copy(value: Any) -> Any:
    return {key: _copy(value) for key, value in value.items()} if isinstance(value, dict) else value


def check_invariants(group: ConsumerGroup) -> None:
    """The invariants of every group."""
    owners: dict[tuple[Uuid, int], str] = {}
    for member in group.members.values():
        for assignment in (member.assigned, member.pending_revocation):
            for topic, partitions in assignment.items():
                for partition in partitions:
                    assert owners.setdefault((topic, partition), member.member_id) == member.member_id
                    assert group.is_owned(topic, partition)
        assert member.member_epoch <= group.group_epoch
    targets: dict[tuple[Uuid, int], str] = {}
    for member_id, target in group.target.items():
        for topic, partitions in target.items():
            for partition in partitions:
                assert targets.setdefault((topic, partition), member_id) == member_id
                assert group.target_owners[topic][partition] == member_id
    assert group.assignment_epoch <= group.group_epoch
    assert len(targets) == sum(len(value) for value in group.target_owners.values())
