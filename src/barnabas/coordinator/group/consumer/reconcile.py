"""Reconciliation: how a member gets from what it owns to its target assignment (KIP-848).

What lives here: the next step of one member, as a pure function.  What may not: records, timers, requests.

A member first gives up what the target takes from it and stays in its epoch until it has said so
(UNREVOKED_PARTITIONS); then it goes to the target's epoch and gets those partitions that nobody owns any
more (UNRELEASED_PARTITIONS while some are missing, else STABLE).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.coordinator.group.assignors.spec import Assignment
from barnabas.coordinator.group.consumer.member import ConsumerMember, MemberState, TopicPartitions

_NONE: frozenset[int] = frozenset()

# The partitions that the member says to own, None where the request does not say it.
Owned = Sequence[TopicPartitions] | None
# Whether some member owns a partition, or has not yet given it up.
IsOwned = Callable[[Uuid, int], bool]


def reconcile(
    member: ConsumerMember, target_epoch: int, target: Assignment, is_owned: IsOwned, owned: Owned
) -> ConsumerMember:
    """The member after one step; itself if it cannot go on yet."""
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
    # A state of a later release: only a member that owns nothing can be taken from here.
    if owned is None or owned:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and "
            "rejoin.",
        )
    return _step(member, target_epoch, target_epoch, target, is_owned, owned)


def _owns_any(owned: Owned, partitions: Assignment) -> bool:
    """Whether the member still has one of these; while it does not say what it has, it may."""
    if owned is None:
        return True
    return any(not partitions.get(one.topic_id, _NONE).isdisjoint(one.partitions) for one in owned)


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
        wanted = target.get(topic, _NONE)
        current = member.assigned.get(topic, _NONE)
        missing = wanted - current
        free = frozenset(partition for partition in missing if not is_owned(topic, partition))
        unreleased |= len(free) < len(missing)
        for where, partitions in ((kept, current & wanted), (revoked, current - wanted), (added, free)):
            if partitions:
                where[topic] = partitions
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
