"""One member's next step, from every state."""

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


def nobody(topic: Uuid, partition: int) -> bool:
    return False


def test_a_member_at_its_target_stays() -> None:
    at_rest = member(assigned=of(1))
    assert reconcile(at_rest, 5, of(1), nobody, None) is at_rest


def test_nothing_to_give_up_and_all_free() -> None:
    after = reconcile(member(assigned=of(1)), 6, of(1, 2), nobody, None)
    assert (after.state, after.member_epoch, after.previous_member_epoch) == (MemberState.STABLE, 6, 5)
    assert after.assigned == of(1, 2)


def test_what_others_own_is_waited_for() -> None:
    after = reconcile(member(assigned=of(1)), 6, of(1, 2, 3), lambda _, partition: partition == 3, None)
    assert (after.state, after.member_epoch) == (MemberState.UNRELEASED_PARTITIONS, 6)
    assert after.assigned == of(1, 2)
    again = reconcile(after, 6, of(1, 2, 3), nobody, None)
    assert (again.state, again.assigned) == (MemberState.STABLE, of(1, 2, 3))
    waiting = reconcile(member(), 6, of(3), lambda *_: True, None)
    assert (waiting.state, waiting.assigned) == (MemberState.UNRELEASED_PARTITIONS, {})


def test_giving_up_comes_first_and_has_to_be_said() -> None:
    before = member(assigned={**of(1, 2), **of(7, topic=U)})
    after = reconcile(before, 6, of(1, 3), nobody, None)
    assert (after.state, after.member_epoch, after.previous_member_epoch) == (
        MemberState.UNREVOKED_PARTITIONS,
        5,
        5,
    )
    assert after.assigned == of(1)
    assert after.pending_revocation == {**of(2), **of(7, topic=U)}
    assert reconcile(after, 6, of(1, 3), nobody, None) is after
    assert reconcile(after, 6, of(1, 3), nobody, says(1, 2)) is after
    assert reconcile(after, 6, of(1, 3), nobody, says(7, topic=U)) is after
    done = reconcile(after, 6, of(1, 3), nobody, says(1))
    assert (done.state, done.member_epoch, done.assigned) == (MemberState.STABLE, 6, of(1, 3))
    assert done.pending_revocation == {}


def test_what_a_member_does_not_have_any_more_need_not_be_given_up() -> None:
    after = reconcile(member(assigned=of(1, 2)), 6, of(1), nobody, says(1))
    assert (after.state, after.member_epoch, after.assigned) == (MemberState.STABLE, 6, of(1))


def test_a_new_target_may_come_while_partitions_are_given_up() -> None:
    giving_up = member(MemberState.UNREVOKED_PARTITIONS, assigned=of(1), pending_revocation=of(2))
    after = reconcile(giving_up, 9, of(3), nobody, says(1))
    # It has left its epoch, and now has to give up the rest.
    assert (after.state, after.member_epoch, after.pending_revocation) == (
        MemberState.UNREVOKED_PARTITIONS,
        6,
        of(1),
    )


def test_a_member_in_a_state_that_is_not_known_starts_from_nothing() -> None:
    unknown = member(MemberState.UNKNOWN)
    for owned in (None, says(1)):
        with pytest.raises(KafkaError) as fenced:
            reconcile(unknown, 6, of(1), nobody, owned)
        assert fenced.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    after = reconcile(unknown, 6, of(1), nobody, [])
    assert (after.state, after.member_epoch, after.assigned) == (MemberState.STABLE, 6, of(1))
