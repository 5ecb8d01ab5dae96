"""The entries of consumer groups, as Apache Kafka 4.1 writes them.  All values have version 0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.coordinator.entry import Entry
from barnabas.coordinator.group.assignors.spec import Assignment
from barnabas.coordinator.group.consumer.member import ConsumerMember
from barnabas.protocol.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


class ResolvedRegex(NamedTuple):
    """The topics that a pattern matched, at an offset of the metadata log and at a time."""

    topics: frozenset[str] = frozenset()
    version: int = -1
    timestamp_ms: int = -1


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Entry:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Entry(ConsumerGroupMetadataKey(group_id=group_id), value)


def group_epoch_tombstone(group_id: str) -> Entry:
    return Entry(ConsumerGroupMetadataKey(group_id=group_id), None)


def partition_metadata_tombstone(group_id: str) -> Entry:
    """Written by releases before 4.1; a group that still has one deletes it."""
    return Entry(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_metadata(group_id: str, member: ConsumerMember) -> Entry:
    value_class = ConsumerGroupMemberMetadataValue
    classic = None
    if member.classic is not None:
        classic = value_class.ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=[
                value_class.ClassicProtocol(name=protocol.name, metadata=protocol.metadata)
                for protocol in member.classic.protocols
            ],
        )
    value = value_class(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_names),
        subscribed_topic_regex=member.subscribed_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=classic,
    )
    return Entry(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def member_metadata_tombstone(group_id: str, member_id: str) -> Entry:
    return Entry(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def target_assignment(group_id: str, member_id: str, target: Assignment) -> Entry:
    value_class = ConsumerGroupTargetAssignmentMemberValue
    value = value_class(
        topic_partitions=[
            value_class.TopicPartition(topic_id=topic, partitions=sorted(target[topic]))
            for topic in sorted(target)
        ]
    )
    return Entry(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_assignment_tombstone(group_id: str, member_id: str) -> Entry:
    return Entry(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def target_epoch(group_id: str, epoch: int) -> Entry:
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch)
    return Entry(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_epoch_tombstone(group_id: str) -> Entry:
    return Entry(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def current_assignment(group_id: str, member: ConsumerMember) -> Entry:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_partitions(member.assigned),
        partitions_pending_revocation=_partitions(member.pending_revocation),
    )
    return Entry(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value
    )


def current_assignment_tombstone(group_id: str, member_id: str) -> Entry:
    return Entry(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def regex(group_id: str, pattern: str, resolved: ResolvedRegex) -> Entry:
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return Entry(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), value)


def regex_tombstone(group_id: str, pattern: str) -> Entry:
    return Entry(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), None)


def member_tombstone(group_id: str, member_id: str) -> list[Entry]:
    """Tombstones for all records of a member."""
    return [
        current_assignment_tombstone(group_id, member_id),
        target_assignment_tombstone(group_id, member_id),
        member_metadata_tombstone(group_id, member_id),
    ]


def group_tombstone(group_id: str, member_ids: Iterable[str], patterns: Iterable[str]) -> list[Entry]:
    """Tombstones for all records of a group, in an order in which they can be applied."""
    members = list(member_ids)
    return [
        *(current_assignment_tombstone(group_id, member) for member in members),
        *(target_assignment_tombstone(group_id, member) for member in members),
        target_epoch_tombstone(group_id),
        *(member_metadata_tombstone(group_id, member) for member in members),
        *(regex_tombstone(group_id, pattern) for pattern in patterns),
        partition_metadata_tombstone(group_id),
        group_epoch_tombstone(group_id),
    ]


def _partitions(
    assignment: Assignment,
) -> list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]:
    return [
        ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions(
            topic_id=topic, partitions=sorted(assignment[topic])
        )
        for topic in sorted(assignment)
    ]
