"""The messages between members of a classic consumer group: subscriptions and assignments, with their version
prefix.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.client.model import NO_EPOCH, TopicPartition, by_topic
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

VERSION_BYTES = 2
LOWEST_VERSION = 0
HIGHEST_VERSION = 3


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's subscription, and what it owns."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_EPOCH
    rack_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """A member's assignment."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def _version(data: bytes) -> int:
    """Return the version to decode with: newer ones are read as the newest known, as they only append
    fields."""
    if len(data) < VERSION_BYTES:
        raise ProtocolError(f"{len(data)} bytes are not a message of a group member")
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if version < LOWEST_VERSION:
        raise ProtocolError(f"a group member uses the unknown version {version}")
    return min(version, HIGHEST_VERSION)


def write_subscription(subscription: Subscription, version: int = HIGHEST_VERSION) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=sorted(numbers))
            for topic, numbers in sorted(by_topic(subscription.owned).items())
        ],
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    return version.to_bytes(VERSION_BYTES, "big") + message.encode(version)


def read_subscription(data: bytes, group_instance_id: str | None = None) -> Subscription:
    message, _ = ConsumerProtocolSubscription.decode_from(data, VERSION_BYTES, _version(data))
    owned = tuple(
        TopicPartition(topic.topic, number)
        for topic in message.owned_partitions
        for number in topic.partitions
    )
    return Subscription(
        tuple(message.topics),
        message.user_data,
        owned,
        message.generation_id,
        message.rack_id or None,
        group_instance_id,
    )


def write_assignment(assignment: Assignment, version: int = HIGHEST_VERSION) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(assignment.partitions).items()
        ],
        user_data=assignment.user_data,
    )
    return version.to_bytes(VERSION_BYTES, "big") + message.encode(version)


def read_assignment(data: bytes) -> Assignment:
    message, _ = ConsumerProtocolAssignment.decode_from(data, VERSION_BYTES, _version(data))
    partitions = tuple(
        TopicPartition(topic.topic, number)
        for topic in message.assigned_partitions
        for number in topic.partitions
    )
    return Assignment(partitions, message.user_data)
