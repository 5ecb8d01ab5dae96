"""The consumer protocol embedded in JoinGroup and SyncGroup: subscriptions and assignments.

Both start with a two-byte version.  A newer version is read as the latest known one, since versions only
append fields.
"""

from __future__ import annotations

from typing import TypeVar

from barnabas.coordinator.group.assignors.spec import Assignment
from barnabas.coordinator.group.consumer.member import TopicPartitions
from barnabas.metadata.image import Image
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.schema import Message

_VERSION_SIZE = 2

M = TypeVar("M", bound=Message)


def read_version(data: bytes) -> int:
    if len(data) < _VERSION_SIZE:
        raise ProtocolError("the embedded consumer protocol has no version")
    version = int.from_bytes(data[:_VERSION_SIZE], "big", signed=True)
    if version < 0:
        raise ProtocolError(f"the embedded consumer protocol has version {version}")
    return version


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    return _read(ConsumerProtocolAssignment, data)


def _read(message: type[M], data: bytes) -> M:
    version = min(read_version(data), message.schema.versions.highest)
    return message.decode_from(data, _VERSION_SIZE, version)[0]


def write_assignment(assignment: Assignment, image: Image, version: int) -> bytes:
    """Omits deleted topics."""
    topics = sorted((image.topics[topic].name, topic) for topic in assignment if topic in image.topics)
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=name, partitions=sorted(assignment[topic]))
            for name, topic in topics
        ]
    )
    version = min(version, ConsumerProtocolAssignment.schema.versions.highest)
    return version.to_bytes(_VERSION_SIZE, "big") + message.encode(version)


def assigned_partitions(assignment: ConsumerProtocolAssignment, image: Image) -> Assignment:
    """By topic id; omits deleted topics."""
    ids = image.topic_ids
    return {
        ids[topic.topic]: frozenset(topic.partitions)
        for topic in assignment.assigned_partitions
        if topic.topic in ids and topic.partitions
    }


def owned_partitions(subscription: ConsumerProtocolSubscription, image: Image) -> list[TopicPartitions]:
    """The partitions that a member reports as owned, in the form of ConsumerGroupHeartbeat."""
    ids = image.topic_ids
    return [
        ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=ids[topic.topic], partitions=topic.partitions)
        for topic in subscription.owned_partitions
        if topic.topic in ids
    ]
