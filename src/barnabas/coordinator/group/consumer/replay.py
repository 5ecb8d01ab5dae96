"""Applies each record of a consumer group to the group.

Each function returns whether the group was removed.  A tombstone for a missing record is ignored: compaction
may have removed the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from barnabas.coordinator.group.consumer.entries import ResolvedRegex
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import ConsumerMember, to_assignment
from barnabas.protocol.records import consumer_group as records
from barnabas.protocol.schema import Message

# Returns whether the group was removed.
Applier = Callable[[ConsumerGroup, Any, Any], bool]


def _group(
    group: ConsumerGroup,
    _: records.ConsumerGroupMetadataKey,
    value: records.ConsumerGroupMetadataValue | None,
) -> bool:
    if value is None:
        return True
    group.group_epoch = value.epoch
    group.metadata_hash = value.metadata_hash
    return False


def _partition_metadata(
    group: ConsumerGroup,
    _: records.ConsumerGroupPartitionMetadataKey,
    value: records.ConsumerGroupPartitionMetadataValue | None,
) -> bool:
    group.has_partition_metadata = value is not None
    return False


def _member(
    group: ConsumerGroup,
    key: records.ConsumerGroupMemberMetadataKey,
    value: records.ConsumerGroupMemberMetadataValue | None,
) -> bool:
    if value is None:
        group.remove_member(key.member_id)
        return False
    known = group.members.get(key.member_id) or ConsumerMember(key.member_id)
    group.update_member(known.with_metadata(value))
    return False


def _target(
    group: ConsumerGroup,
    key: records.ConsumerGroupTargetAssignmentMemberKey,
    value: records.ConsumerGroupTargetAssignmentMemberValue | None,
) -> bool:
    if value is not None:
        group.update_target(key.member_id, to_assignment(value.topic_partitions))
    elif key.member_id in group.target:
        group.remove_target(key.member_id)
    return False


def _target_epoch(
    group: ConsumerGroup,
    _: records.ConsumerGroupTargetAssignmentMetadataKey,
    value: records.ConsumerGroupTargetAssignmentMetadataValue | None,
) -> bool:
    group.assignment_epoch = -1 if value is None else value.assignment_epoch
    return False


def _current(
    group: ConsumerGroup,
    key: records.ConsumerGroupCurrentMemberAssignmentKey,
    value: records.ConsumerGroupCurrentMemberAssignmentValue | None,
) -> bool:
    known = group.members.get(key.member_id)
    if value is not None:
        group.update_member((known or ConsumerMember(key.member_id)).with_current_assignment(value))
    elif known is not None:
        group.update_member(known.without_assignment())
    return False


def _regex(
    group: ConsumerGroup,
    key: records.ConsumerGroupRegularExpressionKey,
    value: records.ConsumerGroupRegularExpressionValue | None,
) -> bool:
    resolved = None
    if value is not None:
        resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    group.update_regex(key.regular_expression, resolved)
    return False


APPLIERS: Mapping[type[Message], Applier] = MappingProxyType(
    {
        records.ConsumerGroupMetadataKey: _group,
        records.ConsumerGroupPartitionMetadataKey: _partition_metadata,
        records.ConsumerGroupMemberMetadataKey: _member,
        records.ConsumerGroupTargetAssignmentMemberKey: _target,
        records.ConsumerGroupTargetAssignmentMetadataKey: _target_epoch,
        records.ConsumerGroupCurrentMemberAssignmentKey: _current,
        records.ConsumerGroupRegularExpressionKey: _regex,
    }
)
# Records that may change the subscriptions of the group.
SUBSCRIPTION_KEYS = frozenset(
    (
        records.ConsumerGroupMetadataKey,
        records.ConsumerGroupMemberMetadataKey,
        records.ConsumerGroupRegularExpressionKey,
    )
)
