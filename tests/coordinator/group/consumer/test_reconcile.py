"""Reconciliation: the next step of a member from every state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.coordinator.group.consumer.member import ConsumerMember, MemberState
from barnabas.coordinator.group.consumer.reconcile import Owned, reconcile
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

T, U = Uuid.from_words(1, 1), Uuid.from_words(1, 2)


def of(*partitions: int, topic: Uuid = T) -> dict[Uuid, frozenset[int]]:
    return {topic: frozenset(partitions)} if partitions else {}


def says(*partitions: int, topic: Uuid = T) -> Owned:
    return [ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic, partitions=list(partitions))]


def member(state: MemberState = MemberState.STABLE, epoch: int = 5, **more: Any) -> ConsumerMember:
    return replace(
        ConsumerMember("m", member_epoch=epoch, previous_member_epoch=4, state=state), **more
    )  # fields by name


def unowned(topic: Uuid, partition: int) -> bool:
    return False


def test_a_member_at_its_target_stays() -> None:
    at_rest = member(assigned=of(1))
    assert reconcile(at_rest, 5, of(1), unowned, None) is at_rest


def test_nothing_to_revoke_and_all_partitions_free() -> None:
    after = reconcile(member(assigned=of(1)), 6, of(1, 2), unowned, None)
    assert (after.state, after.member_epoch, after.previous_member_epoch) == (MemberState.STABLE, 6, 5)
    assert after.assigned == of(1, 2)


def test_a_member_waits_for_unreleased_partitions() -> None:
    after = reconcile(member(assigned=of(1)), 6, of(1, 2, 3), lambda _, partition: partition == 3, None)
    assert (after.state, after.member_epoch) == (MemberState.UNRELEASED_PARTITIONS, 6)
    assert after.assigned == of(1, 2)
    advanced = reconcile(after, 6, of(1, 2, 3), unowned, None)
    assert (advanced.state, advanced.assigned) == (MemberState.STABLE, of(1, 2, 3))
    waiting = reconcile(member(), 6, of(3), lambda *_: True, None)
    assert (waiting.state, waiting.assigned) == (MemberState.UNRELEASED_PARTITIONS, {})


def test_revocation_comes_first_and_must_be_confirmed() -> None:
    before = member(assigned={**of(1, 2), **of(7, topic=U)})
    after = reconcile(before, 6, of(1, 3), unowned, None)
    assert (after.state, after.member_epoch, after.previous_member_epoch) == (
        MemberState.UNREVOKED_PARTITIONS,
        5,
        5,
    )
    assert after.assigned == of(1)
    assert after.pending_revocation == {**of(2), **of(7, topic=U)}
    assert reconcile(after, 6, of(1, 3), unowned, None) is after
    assert reconcile(after, 6, of(1, 3), unowned, says(1, 2)) is after
    assert reconcile(after, 6, of(1, 3), unowned, says(7, topic=U)) is after
    done = reconcile(after, 6, of(1, 3), unowned, says(1))
    assert (done.state, done.member_epoch, done.assigned) == (MemberState.STABLE, 6, of(1, 3))
    assert done.pending_revocation == {}


def test_partitions_that_a_member_no_longer_owns_need_no_revocation() -> None:
    after = reconcile(member(assigned=of(1, 2)), 6, of(1), unowned, says(1))
    assert (after.state, after.member_epoch, after.assigned) == (MemberState.STABLE, 6, of(1))


def test_the_target_may_change_during_revocation() -> None:
    giving_up = member(MemberState.UNREVOKED_PARTITIONS, assigned=of(1), pending_revocation=of(2))
    after = reconcile(giving_up, 9, of(3), unowned, says(1))
    # It has left its epoch, and now has to revoke the remaining partitions.
    assert (after.state, after.member_epoch, after.pending_revocation) == (
        MemberState.UNREVOKED_PARTITIONS,
        6,
        of(1),
    )


def test_a_member_in_an_unknown_state_must_own_nothing() -> None:
    unknown = member(MemberState.UNKNOWN)
    for owned in (None, says(1)):
        with pytest.raises(KafkaError) as fenced:
            reconcile(unknown, 6, of(1), unowned, owned)
        assert fenced.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    after = reconcile(unknown, 6, of(1), unowned, [])
    assert (after.state, after.member_epoch, after.assigned) == (MemberState.STABLE, 6, of(1))
