"""Members of consumer groups: joining, revocation, assignment, epochs and fencing."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.consumer import member_updater
from barnabas.coordinator.group.consumer.member import MemberState
from barnabas.coordinator.group.subscription.target import compute_target
from barnabas.protocol.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from tests.coordinator.group.worlds.classic_world import GROUP
from tests.coordinator.group.worlds.consumer_world import (
    HEARTBEAT_MS,
    ConsumerWorld,
    check_invariants,
    durable,
)


def test_the_first_member_gets_all_partitions_immediately() -> None:
    world = ConsumerWorld()
    response = world.beat("a", 0)
    assert world.epoch_and_assignment(response) == (1, {"t": [0, 1, 2, 3]})
    assert response.heartbeat_interval_ms == HEARTBEAT_MS
    assert [type(entry.key) for entry in world.store.entries] == [
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupMetadataKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupCurrentMemberAssignmentKey,
    ]
    assert world.consumers.state_name == "Stable"
    # A heartbeat without changes writes nothing and returns no assignment.
    written = len(world.store.entries)
    assert world.epoch_and_assignment(world.beat("a", 1)) == (1, None)
    assert len(world.store.entries) == written


def test_a_partition_moves_once_its_owner_has_revoked_it() -> None:
    world = ConsumerWorld()
    world.beat("a", 0)
    assert world.epoch_and_assignment(world.beat("b", 0)) == (2, {})
    assert world.consumers.members["b"].state is MemberState.UNRELEASED_PARTITIONS
    assert world.consumers.state_name == "Reconciling"
    # The first member has to revoke two partitions, and stays in its epoch until it has confirmed that.
    assert world.epoch_and_assignment(world.beat("a", 1)) == (1, {"t": [0, 1]})
    assert world.epoch_and_assignment(world.beat("a", 1, owned={"t": [0, 1, 2, 3]})) == (1, None)
    assert world.epoch_and_assignment(world.beat("b", 2)) == (2, None)
    assert world.epoch_and_assignment(world.beat("a", 1, owned={"t": [0, 1]})) == (2, None)
    assert world.epoch_and_assignment(world.beat("b", 2)) == (2, {"t": [2, 3]})
    assert world.consumers.state_name == "Stable"
    check_invariants(world.consumers)


def test_more_members_than_partitions() -> None:
    # M-G2
    world = ConsumerWorld(t=2)
    for name in "abc":
        world.beat(name, 0)
    world.settle(*"abc")
    assert sorted(len(world.owned(name)) for name in "abc") == [0, 1, 1]
    idle = next(name for name in "abc" if not world.owned(name))
    busy = next(name for name in "abc" if world.owned(name))
    world.beat(busy, -1)
    world.settle(*(name for name in "abc" if name != busy))
    assert world.owned(idle)


def test_partitions_added_to_a_subscribed_topic_are_assigned() -> None:
    # M-G2
    world = ConsumerWorld(t=1)
    world.beat("a", 0)
    world.beat("b", 0)
    world.settle("a", "b")
    world.topic("t", 4)
    # One heartbeat of any member detects them.
    world.beat("a", 2)
    assert world.consumers.group_epoch == 3
    world.settle("a", "b")
    assert sorted([*world.owned("a")["t"], *world.owned("b")["t"]]) == [0, 1, 2, 3]
    world.beat("a", 3)
    assert world.consumers.group_epoch == 3


def test_a_deleted_topic_is_revoked_from_all_members() -> None:
    world = ConsumerWorld(t=2, u=2)
    world.beat("a", 0, names=["t", "u"])
    world.delete_topic("u")
    # It has to be revoked like any other partition: the member still owns it.
    assert world.epoch_and_assignment(world.beat("a", 1)) == (1, {"t": [0, 1]})
    assert world.epoch_and_assignment(world.beat("a", 1, owned={"t": [0, 1]})) == (2, None)


def test_an_unsubscribed_topic_changes_nothing() -> None:
    world = ConsumerWorld()
    world.beat("a", 0)
    world.topic("other", 3)
    assert world.epoch_and_assignment(world.beat("a", 1)) == (1, None)


def test_a_topic_may_be_created_after_its_subscribers() -> None:
    world = ConsumerWorld()
    assert world.epoch_and_assignment(world.beat("a", 0, names=["later"])) == (1, {})
    world.topic("later", 2)
    assert world.epoch_and_assignment(world.beat("a", 1)) == (2, {"later": [0, 1]})


def test_a_lost_response_is_sent_again() -> None:
    world = ConsumerWorld(t=2, u=1)
    world.beat("a", 0)
    assert world.epoch_and_assignment(world.beat("a", 0)) == (1, {"t": [0, 1]})
    world.beat("a", 1, names=["t", "u"])
    assert world.error("a", 0) is ErrorCode.FENCED_MEMBER_EPOCH
    # A member may be one epoch behind if it owns only assigned partitions.
    epoch, assignment = world.epoch_and_assignment(world.beat("a", 1, owned={"t": [0]}, names=["t", "u"]))
    assert (epoch, assignment) == (2, None)
    full = world.beat("a", 1, owned={"t": [0]}, names=["t", "u"], rebalance_timeout_ms=1000)
    assert world.epoch_and_assignment(full) == (2, {"t": [0, 1], "u": [0]})
    assert world.error("a", 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.error("a", 1, owned={"t": [7]}) is ErrorCode.FENCED_MEMBER_EPOCH


def test_invalid_epochs_and_unknown_members_are_rejected_and_change_nothing() -> None:
    world = ConsumerWorld()
    assert world.error("a", 1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.error("a", -1) is ErrorCode.GROUP_ID_NOT_FOUND
    world.beat("a", 0)
    before, written = durable(world.consumers), len(world.store.entries)
    assert world.error("a", 2) is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.error("b", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.error("b", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.error("a", 1, instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID
    assert (durable(world.consumers), len(world.store.entries)) == (before, written)


def test_a_member_without_an_id_gets_one() -> None:
    world = ConsumerWorld()
    response = world.beat("", 0)
    assert len(response.member_id) == 22
    assert list(world.consumers.members) == [response.member_id]


def test_a_static_member_that_rejoins_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its group would count as one with different subscriptions."""
    epoch_and_assignment: list[bool] = []

    def compute(*args: Any, homogeneous: bool, **more: Any) -> Any:
        epoch_and_assignment.append(homogeneous)
        return compute_target(*args, homogeneous=homogeneous, **more)

    world = ConsumerWorld(t=4, u=2)
    world.beat("a", 0, names=["t", "u"])
    world.beat("b", 0, names=["t"], instance_id="one")
    world.settle("a")
    world.beat("b", -2, instance_id="one")
    monkeypatch.setattr(member_updater, "compute_target", compute)
    world.beat("c", 0, names=["t", "u"], instance_id="one")
    assert epoch_and_assignment == [True]


def test_a_full_group_rejects_new_members() -> None:
    world = ConsumerWorld({"group.consumer.max.size": "1"})
    world.beat("a", 0)
    response = world.beat("b", 0)
    assert isinstance(response, KafkaError)
    assert response.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.epoch_and_assignment(world.beat("a", 1)) == (1, None)


def test_a_rejected_append_has_no_effect() -> None:
    world = ConsumerWorld()
    world.beat("a", 0)
    before = durable(world.consumers)
    deadline = world.machine.timers.next_deadline()
    world.store.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert world.error("b", 0) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert durable(world.consumers) == before
    assert world.machine.timers.next_deadline() == deadline
    world.store.refusal = None
    assert world.epoch_and_assignment(world.beat("b", 0)) == (2, {})


def test_nothing_is_returned_before_it_is_committed() -> None:
    # Trap 26 also applies to consumer groups.
    world = ConsumerWorld()
    world.store.held_at = world.store.end
    response = world.beat("a", 0)
    assert not hasattr(response, "member_epoch")


@pytest.mark.parametrize(
    ("requested", "expected"), [("range", "range"), ("uniform", "uniform"), (None, "uniform")]
)
def test_members_choose_the_assignor(requested: str | None, expected: str) -> None:
    world = ConsumerWorld(t=3, u=3)
    world.beat("a", 0, names=["t", "u"], server_assignor=requested)
    world.beat("b", 0, names=["t", "u"])
    described = world.machine.consumer.describe(GROUP, world.context)
    assert described.assignor_name == expected
    # Range splits both topics at the same position; uniform balances the total.
    sizes = sorted(sum(map(len, world.target(name).values())) for name in "ab")
    assert sizes == ([2, 4] if expected == "range" else [3, 3])


def test_the_default_assignor_is_the_first_configured_one() -> None:
    world = ConsumerWorld({"group.consumer.assignors": "range,uniform"})
    world.beat("a", 0)
    assert world.machine.consumer.describe(GROUP, world.context).assignor_name == "range"


def test_group_configs_override_broker_configs() -> None:
    world = ConsumerWorld()
    world.set_group_option("consumer.heartbeat.interval.ms", "7000")
    assert world.beat("a", 0).heartbeat_interval_ms == 7000
    world.set_group_option("consumer.session.timeout.ms", "50000")
    world.beat("a", 1)
    world.pass_ms(49_999)
    assert not world.consumers.is_empty
    world.pass_ms(1)
    assert world.consumers.is_empty


def test_a_group_is_described_with_current_and_target_assignments() -> None:
    world = ConsumerWorld()
    world.beat("a", 0, rack_id="r", instance_id="i")
    world.beat("b", 0)
    described = world.machine.consumer.describe(GROUP, world.context)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 2, 2)
    a, b = sorted(described.members, key=lambda member: member.member_id)
    assert (a.rack_id, a.instance_id, a.client_id, a.client_host, a.member_type) == (
        "r",
        "i",
        "client",
        "/127.0.0.1",
        1,
    )
    assert a.assignment.topic_partitions[0].partitions == [0, 1, 2, 3]
    assert a.target_assignment.topic_partitions[0].partitions == [0, 1]
    assert a.target_assignment.topic_partitions[0].topic_name == "t"
    assert b.assignment.topic_partitions == []
    assert b.subscribed_topic_names == ["t"]
    missing = world.machine.consumer.describe("nothing", world.context)
    assert (missing.error_code, missing.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group nothing not found.",
    )


def test_what_happened_is_recorded_as_events() -> None:
    world = ConsumerWorld()
    world.beat("a", 0)
    world.beat("b", 0)
    world.beat("a", -1)
    world.pass_ms(45_000)
    kinds = world.events()
    assert kinds.count(EventKind.MEMBER_JOINED) == 2
    assert [kinds.count(kind) for kind in (EventKind.MEMBER_LEFT, EventKind.MEMBER_EXPIRED)] == [1, 1]
    assert EventKind.GROUP_EMPTY in kinds
    assert EventKind.GENERATION in kinds
