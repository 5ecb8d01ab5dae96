"""Online conversion of groups: classic to consumer and back (KIP-848).

Decides whether a group may be converted, and builds the converted group and its entries.  Timers and waiting
requests belong in `consumer.heartbeat` and `consumer.leave`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.log_text import LONGEST_LINE, shown
from barnabas.config.settings import Settings
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.group.assignors.spec import NO_PARTITIONS, Assignment
from barnabas.coordinator.group.classic.group import ClassicGroup, ClassicState
from barnabas.coordinator.group.classic.member import NO_ASSIGNMENT, ClassicMember
from barnabas.coordinator.group.classic.records import group_entry
from barnabas.coordinator.group.consumer import entries
from barnabas.coordinator.group.consumer.group import PROTOCOL_TYPE, ConsumerGroup
from barnabas.coordinator.group.consumer.member import ClassicMemberMetadata, ClassicProtocol, ConsumerMember
from barnabas.coordinator.group.consumer.options import migration_policy
from barnabas.coordinator.group.conversion.embedded_protocol import (
    assigned_partitions,
    read_assignment,
    read_subscription,
    read_version,
    write_assignment,
)
from barnabas.coordinator.group.subscription.subscription import TopicHashes
from barnabas.metadata.image import Image
from barnabas.protocol.primitives import ProtocolError

logger = logging.getLogger(__name__)


# Upgrade to a consumer group


def check_upgrade(group: ClassicGroup, settings: Settings) -> None:
    """Raises GROUP_ID_NOT_FOUND: for a member of the other protocol the group does not exist."""
    if not migration_policy(settings).allows_upgrade:
        raise _upgrade_error(group, "online upgrade is disabled")
    if not group.uses_consumer_protocol:
        raise _upgrade_error(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > settings["group.consumer.max.size"]:
        raise _upgrade_error(group, "the group size exceeds the consumer group maximum size")


def _upgrade_error(group: ClassicGroup, reason: str) -> KafkaError:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}."
    logger.info("%s", shown(message, LONGEST_LINE))
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def to_consumer_group(group: ClassicGroup, hashes: TopicHashes, image: Image) -> ConsumerGroup:
    """Members keep the assignment of the last generation; those in a rebalance are asked to rejoin."""
    consumer = ConsumerGroup(group.group_id)
    consumer.group_epoch = consumer.assignment_epoch = group.generation
    protocol = group.protocol if group.protocol is not None else group.select_protocol()
    try:
        for classic in group.ordered_members():
            member = _to_consumer_member(group, classic, protocol, image)
            consumer.update_target(member.member_id, member.assigned)
            consumer.update_member(member)
    except ProtocolError as error:
        logger.warning("group %s cannot be upgraded: %s", shown(group.group_id), error)
        raise _upgrade_error(group, "the embedded consumer protocol is malformed") from error
    consumer.metadata_hash = hashes.of_group(consumer.subscribed, image)
    return consumer


def _to_consumer_member(
    group: ClassicGroup, classic: ClassicMember, protocol: str, image: Image
) -> ConsumerMember:
    subscription = read_subscription(classic.metadata_for(protocol))
    return ConsumerMember(
        classic.member_id,
        member_epoch=group.generation,
        previous_member_epoch=group.generation,
        instance_id=classic.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=classic.rebalance_timeout_ms,
        client_id=classic.client_id,
        client_host=classic.client_host,
        subscribed_names=frozenset(subscription.topics),
        assigned=_current_assignment(group, classic, image),
        classic=ClassicMemberMetadata(
            classic.session_timeout_ms,
            tuple(ClassicProtocol(name, metadata) for name, metadata in classic.protocols),
        ),
    )


def _current_assignment(group: ClassicGroup, classic: ClassicMember, image: Image) -> Assignment:
    """A member that joined but never synced has no assignment yet."""
    if classic.assignment == NO_ASSIGNMENT:
        return NO_PARTITIONS
    assignment = read_assignment(classic.assignment)
    if assignment.user_data:
        raise _upgrade_error(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
            "default assignor before re-attempting the upgrade",
        )
    return assigned_partitions(assignment, image)


def creation_entries(group: ConsumerGroup) -> list[Entry]:
    """The entries that create this group in the log."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(entries.member_metadata(group_id, member) for member in members),
        entries.group_epoch(group_id, group.group_epoch, group.metadata_hash),
        *(
            entries.target_assignment(
                group_id, member.member_id, group.target.get(member.member_id, NO_PARTITIONS)
            )
            for member in members
        ),
        entries.target_epoch(group_id, group.group_epoch),
        *(entries.current_assignment(group_id, member) for member in members),
    ]


# Downgrade to a classic group


def can_downgrade(group: ConsumerGroup, leaving: Collection[ConsumerMember], settings: Settings) -> bool:
    """Whether only classic members remain without these members, and the downgrade is allowed."""
    remaining = len(group.members) - len(leaving)
    return (
        remaining > 0
        and group.all_use_classic_protocol_except(leaving)
        and _is_downgrade_allowed(group, remaining, settings)
    )


def can_downgrade_replacing(group: ConsumerGroup, replaced: ConsumerMember, settings: Settings) -> bool:
    """Likewise for a static member that is replaced by a classic member."""
    return (
        replaced.classic is None
        and group.classic_member_count == len(group.members) - 1
        and _is_downgrade_allowed(group, len(group.members), settings)
    )


def _is_downgrade_allowed(group: ConsumerGroup, members: int, settings: Settings) -> bool:
    if not migration_policy(settings).allows_downgrade:
        reason = "the online downgrade is disabled"
    elif members > settings["group.max.size"]:
        reason = "its group size is greater than classic group max size"
    else:
        return True
    logger.info(
        "Cannot downgrade consumer group %s to classic group because %s.", shown(group.group_id), reason
    )
    return False


def to_classic_group(
    group: ConsumerGroup,
    leaving: Collection[ConsumerMember],
    joining: ConsumerMember | None,
    image: Image,
    now_ms: int,
) -> ClassicGroup:
    """The remaining members, plus a member that replaces the static member with its instance id."""
    classic = ClassicGroup(group.group_id, now_ms)
    classic.generation = group.group_epoch
    removed = {member.member_id for member in leaving}
    replaced = group.static_member(joining.instance_id) if joining is not None else None
    if replaced is not None:
        removed.add(replaced.member_id)
    staying = [member for member in group.members.values() if member.member_id not in removed]
    for member in staying if joining is None else [*staying, joining]:
        classic.add(_to_classic_member(member), PROTOCOL_TYPE)
    classic.state = ClassicState.STABLE
    # Partitions of removed members are unowned until all members rejoin, even after a failover.
    classic.needs_rebalance = joining is None
    classic.protocol = classic.select_protocol()
    classic.subscribed_topics = classic.compute_subscribed_topics()
    try:
        for added in list(classic.members.values()):
            is_joining = joining is not None and added.member_id == joining.member_id
            previous_id = replaced.member_id if is_joining and replaced is not None else added.member_id
            version = read_version(added.metadata_for(classic.protocol))
            target = group.target.get(previous_id, NO_PARTITIONS)
            classic.change(replace(added, assignment=write_assignment(target, image, version)))
    except ProtocolError as error:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot downgrade the classic group {group.group_id}: {error.message}.",
        ) from error
    return classic


def _to_classic_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None, "only classic members remain"
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=member.classic.protocols,
    )


def downgrade_entries(
    group: ConsumerGroup, classic: ClassicGroup, joining: ConsumerMember | None
) -> list[Entry]:
    """Tombstones for the consumer group, followed by the classic group.

    The records of the member that `joining` replaces were already removed, so those of `joining` are removed
    instead.
    """
    replaced = group.static_member(joining.instance_id) if joining is not None else None
    member_ids = [
        joining.member_id
        if joining is not None and replaced is not None and member_id == replaced.member_id
        else member_id
        for member_id in group.members
    ]
    assignments = {member.member_id: member.assignment for member in classic.members.values()}
    return [
        *entries.group_tombstone(group.group_id, member_ids, group.resolved),
        group_entry(classic, assignments),
    ]
