"""Finds or creates the member that a request is from, and fences stale requests."""

from __future__ import annotations

import logging
from dataclasses import replace

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.log_text import shown
from barnabas.coordinator.decision import Changes
from barnabas.coordinator.group.assignors.spec import NO_PARTITIONS, Assignment
from barnabas.coordinator.group.consumer import entries
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerMember,
)
from barnabas.coordinator.group.consumer.reconcile import Owned

logger = logging.getLogger(__name__)


def check_group_size(group: ConsumerGroup, member_id: str, max_size: int) -> None:
    if len(group.members) >= max_size and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {max_size} members.",
        )


def check_epoch(member: ConsumerMember, received: int, owned: Owned) -> None:
    """A member may be one epoch behind if it missed the last response and lost no partition since."""
    if received > member.member_epoch:
        raise _fenced_epoch("greater", received, member.member_epoch)
    if received < member.member_epoch and (
        received != member.previous_member_epoch or not _is_subset(owned, member.assigned)
    ):
        raise _fenced_epoch("smaller", received, member.member_epoch)


def _fenced_epoch(comparison: str, received: int, expected: int) -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {comparison} member epoch ({received}) than the one known by the "
        f"group coordinator ({expected}). The member must abandon all its partitions and rejoin.",
    )


def _is_subset(owned: Owned, assigned: Assignment) -> bool:
    if owned is None:
        return False
    return all(
        topic.topic_id in assigned and assigned[topic.topic_id].issuperset(topic.partitions)
        for topic in owned
    )


def dynamic_member(group: ConsumerGroup, member_id: str, *, create: bool) -> ConsumerMember:
    member = group.members.get(member_id)
    if member is not None:
        return member
    return ConsumerMember(member_id) if create else group.member(member_id)


def static_member(
    group: ConsumerGroup, member_id: str, instance_id: str, *, create: bool, classic: bool, changes: Changes
) -> ConsumerMember:
    """With `create` the member joins, and may replace the member with the same instance id."""
    existing = group.static_member(instance_id)
    if not create:
        known = known_static(existing, instance_id)
        check_instance(known, member_id, instance_id)
        return known
    if existing is None:
        return dynamic_member(group, member_id, create=True)
    if not classic and existing.classic is None and existing.member_epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
            f"instance id is owned by {existing.member_id} member.",
        )
    # It continues with the assignment of the replaced member, starting from the join epoch.
    member = replace(
        existing,
        member_id=member_id,
        member_epoch=JOIN_GROUP_MEMBER_EPOCH,
        previous_member_epoch=JOIN_GROUP_MEMBER_EPOCH,
    )
    logger.info(
        "group %s: %s replaces %s",
        shown(group.group_id),
        shown(member_id),
        shown(existing.member_id),
    )
    target = group.target.get(existing.member_id, NO_PARTITIONS)
    changes.write(entries.member_tombstone(group.group_id, existing.member_id))
    changes.write(
        (
            entries.member_metadata(group.group_id, member),
            entries.target_assignment(group.group_id, member_id, target),
            entries.current_assignment(group.group_id, member),
        )
    )
    return member


def known_static(member: ConsumerMember | None, instance_id: str) -> ConsumerMember:
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    return member


def check_instance(member: ConsumerMember, member_id: str, instance_id: str) -> None:
    """A static member may have been replaced by a newer one with the same instance id."""
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
