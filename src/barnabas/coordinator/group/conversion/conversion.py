"""Groups that change their protocol while members run: classic to consumer and back (KIP-848).

What lives here: when a group may change, and the group of the other kind that comes of it, with the entries
that make the log say so.  What may not: timers and requests that wait.
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
from barnabas.coordinator.group.consumer.member import ClassicProtocol, ClassicTraits, ConsumerMember
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


# To a consumer group


def check_upgrade(group: ClassicGroup, settings: Settings) -> None:
    """GROUP_ID_NOT_FOUND: to a member of the other kind there is no such group."""
    if not migration_policy(settings).allows_upgrade:
        raise _no_upgrade(group, "online upgrade is disabled")
    if not group.uses_consumer_protocol:
        raise _no_upgrade(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > settings["group.consumer.max.size"]:
        raise _no_upgrade(group, "the group size exceeds the consumer group maximum size")


def _no_upgrade(group: ClassicGroup, reason: str) -> KafkaError:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}."
    logger.info("%s", shown(message, LONGEST_LINE))
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def upgraded(group: ClassicGroup, hashes: TopicHashes, image: Image) -> ConsumerGroup:
    """All members own what the last generation gave them; those in a rebalance are told to join again."""
    consumer = ConsumerGroup(group.group_id)
    consumer.group_epoch = consumer.assignment_epoch = group.generation
    protocol = group.protocol if group.protocol is not None else group.select_protocol()
    try:
        for classic in group.ordered_members():
            member = _upgraded_member(group, classic, protocol, image)
            consumer.update_target(member.member_id, member.assigned)
            consumer.update_member(member)
    except ProtocolError as error:
        logger.warning("group %s cannot be upgraded: %s", shown(group.group_id), error)
        raise _no_upgrade(group, "the embedded consumer protocol is malformed") from error
    consumer.metadata_hash = hashes.of_group(consumer.subscribed, image)
    return consumer


def _upgraded_member(
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
        assigned=_assigned(group, classic, image),
        classic=ClassicTraits(
            classic.session_timeout_ms,
            tuple(ClassicProtocol(name, metadata) for name, metadata in classic.protocols),
        ),
    )


def _assigned(group: ClassicGroup, classic: ClassicMember, image: Image) -> Assignment:
    """Who has just joined and never synced has nothing yet."""
    if classic.assignment == NO_ASSIGNMENT:
        return NO_PARTITIONS
    assignment = read_assignment(classic.assignment)
    if assignment.user_data:
        raise _no_upgrade(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
            "default assignor before re-attempting the upgrade",
        )
    return assigned_partitions(assignment, image)


def creation(group: ConsumerGroup) -> list[Entry]:
    """What makes the log know a group as it is."""
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


# To a classic group


def can_downgrade(group: ConsumerGroup, leaving: Collection[ConsumerMember], settings: Settings) -> bool:
    """Whether only members of the classic kind are left when these are gone, and the group may change."""
    left = len(group.members) - len(leaving)
    return left > 0 and group.all_classic_without(leaving) and _may_downgrade(group, left, settings)


def can_downgrade_replacing(group: ConsumerGroup, replaced: ConsumerMember, settings: Settings) -> bool:
    """The same for a static member in whose place one of the classic kind comes."""
    return (
        replaced.classic is None
        and group.classic_member_count == len(group.members) - 1
        and _may_downgrade(group, len(group.members), settings)
    )


def _may_downgrade(group: ConsumerGroup, members: int, settings: Settings) -> bool:
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


def downgraded(
    group: ConsumerGroup,
    leaving: Collection[ConsumerMember],
    joining: ConsumerMember | None,
    image: Image,
    now_ms: int,
) -> ClassicGroup:
    """Of those who stay, and of one who joins in the place of the static member with its instance id."""
    classic = ClassicGroup(group.group_id, now_ms)
    classic.generation = group.group_epoch
    removed = {member.member_id for member in leaving}
    replaced = group.static_member(joining.instance_id) if joining is not None else None
    if replaced is not None:
        removed.add(replaced.member_id)
    staying = [member for member in group.members.values() if member.member_id not in removed]
    for member in staying if joining is None else [*staying, joining]:
        classic.add(_downgraded_member(member), PROTOCOL_TYPE)
    classic.state = ClassicState.STABLE
    # What the others owned is nobody's until everybody has joined again; a fail-over must not forget that.
    classic.needs_rebalance = joining is None
    classic.protocol = classic.select_protocol()
    classic.subscribed_topics = classic.compute_subscribed_topics()
    try:
        for one in list(classic.members.values()):
            was = replaced is not None and joining is not None and one.member_id == joining.member_id
            known_as = replaced.member_id if was and replaced is not None else one.member_id
            version = read_version(one.metadata_for(classic.protocol))
            target = group.target.get(known_as, NO_PARTITIONS)
            classic.change(replace(one, assignment=write_assignment(target, image, version)))
    except ProtocolError as error:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot downgrade the classic group {group.group_id}: {error.message}.",
        ) from error
    return classic


def _downgraded_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None, "only members of the classic kind are left"
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
    """The consumer group goes and the classic one comes.

    The member whose place `joining` takes is gone from the log already, and what was written for `joining`
    goes instead.
    """
    replaced = group.static_member(joining.instance_id) if joining is not None else None
    member_ids = [
        joining.member_id
        if joining is not None and replaced is not None and member_id == replaced.member_id
        else member_id
        for member_id in group.members
    ]
    assignments = {one.member_id: one.assignment for one in classic.members.values()}
    return [
        *entries.group_tombstone(group.group_id, member_ids, group.resolved),
        group_entry(classic, assignments),
    ]
