"""Reconciliation: moves a member from its current to its target assignment (KIP-848).  Pure functions.

A member first revokes the partitions that are not in its target and stays in its epoch until it has confirmed
that (UNREVOKED_PARTITIONS).  Then it advances to the target epoch and gets the partitions that no other
member owns (UNRELEASED_PARTITIONS while some are missing, otherwise STABLE).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.coordinator.group.assignors.spec import Assignment
from barnabas.coordinator.group.consumer.member import ConsumerMember, MemberState, TopicPartitions

_NONE: frozenset[int] = frozenset()

# The partitions that the member reports as owned; None if the request does not contain them.
Owned = Sequence[TopicPartitions] | None
# Whether a member owns a partition or has not released it yet.
IsOwned = Callable[[Uuid, int], bool]


def reconcile(
    member: ConsumerMember, target_epoch: int, target: Assignment, is_owned: IsOwned, owned: Owned
) -> ConsumerMember:
    """Returns the member after one step; unchanged if it cannot advance yet."""
    if member.state is MemberState.STABLE:
        if member.member_epoch == target_epoch:
            return member
        return _step(member, member.member_epoch, target_epoch, target, is_owned, owned)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _owns_any(owned, member.pending_revocation):
            return member
        return _step(member, member.member_epoch + 1, target_epoch, target, is_owned, owned)
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return _step(member, member.member_epoch, target_epoch, target, is_owned, owned)
    # A state of a later release: only a member without partitions can continue.
    if owned is None or owned:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and "
            "rejoin.",
        )
    return _step(member, target_epoch, target_epoch, target, is_owned, owned)


def _owns_any(owned: Owned, partitions: Assignment) -> bool:
    """Whether the member still owns one of these partitions; assumed if it does not report them."""
    if owned is None:
        return True
    return any(not partitions.get(topic.topic_id, _NONE).isdisjoint(topic.partitions) for topic in owned)


def _step(
    member: ConsumerMember,
    member_epoch: int,
    target_epoch: int,
    target: Assignment,
    is_owned: IsOwned,
    owned: Owned,
) -> ConsumerMember:
    kept: dict[Uuid, frozenset[int]] = {}
    revoked: dict[Uuid, frozenset[int]] = {}
    added: dict[Uuid, frozenset[int]] = {}
    unreleased = False
    for topic in {**target, **member.assigned}:
        target_partitions = target.get(topic, _NONE)
        current = member.assigned.get(topic, _NONE)
        missing = target_partitions - current
        free = frozenset(partition for partition in missing if not is_owned(topic, partition))
        unreleased |= len(free) < len(missing)
        for destination, partitions in (
            (kept, current & target_partitions),
            (revoked, current - target_partitions),
            (added, free),
        ):
            if partitions:
                destination[topic] = partitions
    if revoked and _owns_any(owned, revoked):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            member_epoch=member_epoch,
            previous_member_epoch=member.member_epoch,
            assigned=kept,
            pending_revocation=revoked,
        )
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE,
        member_epoch=target_epoch,
        previous_member_epoch=member.member_epoch,
        assigned={topic: kept.get(topic, _NONE) | added.get(topic, _NONE) for topic in {**kept, **added}},
        pending_revocation={},
    )
