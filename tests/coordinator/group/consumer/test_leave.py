"""Members of consumer groups that leave or time out, and static members that rejoin."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.group.consumer.member import MemberState
from barnabas.coordinator.group.subscription.subscription import TopicHashes
from tests.coordinator.group.worlds.classic_world import GROUP
from tests.coordinator.group.worlds.consumer_world import (
    REBALANCE_MS,
    SESSION_MS,
    ConsumerWorld,
    check_invariants,
)


def two(world: ConsumerWorld, **more: str) -> None:
    """A stable group of two members."""
    world.beat("a", 0, instance_id=more.get("a"))
    world.beat("b", 0, instance_id=more.get("b"))
    world.settle("a", "b")


def test_partitions_of_a_leaving_member_go_to_the_others() -> None:
    world = ConsumerWorld()
    two(world)
    assert world.epoch_and_assignment(world.beat("a", -1)) == (-1, None)
    assert world.consumers.group_epoch == 3
    assert world.consumers.state_name == "Assigning"
    assert world.epoch_and_assignment(world.beat("b", 2)) == (3, {"t": [0, 1, 2, 3]})
    world.beat("b", -1)
    assert world.consumers.state_name == "Empty"
    assert world.consumers.subscribed == {}


def test_a_member_is_removed_when_its_session_expires() -> None:
    world = ConsumerWorld()
    two(world)
    world.pass_ms(SESSION_MS - 1)
    world.beat("b", 2)
    world.pass_ms(1)
    assert list(world.consumers.members) == ["b"]
    assert world.error("a", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    world = ConsumerWorld()
    world.beat("a", 0)
    world.beat("b", 0)
    world.beat("a", 1)
    assert world.consumers.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    for _ in range(REBALANCE_MS // 10_000 - 1):
        world.pass_ms(10_000)
        world.beat("a", 1, owned={"t": [0, 1, 2, 3]})
        world.beat("b", 2)
    assert "a" in world.consumers.members
    world.pass_ms(10_000)
    assert list(world.consumers.members) == ["b"]


def test_revocation_cancels_the_rebalance_timeout() -> None:
    world = ConsumerWorld()
    world.beat("a", 0)
    world.beat("b", 0)
    world.beat("a", 1)
    assert len(world.machine.timers) == 4
    world.beat("a", 1, owned={"t": [0, 1]})
    assert len(world.machine.timers) == 3, "two sessions and the cleanup timer are left"
    for _ in range(9):
        world.pass_ms(10_000)
        world.beat("a", 2)
        world.beat("b", 2)
    assert sorted(world.consumers.members) == ["a", "b"]


def test_the_rebalance_timeout_applies_only_to_its_epoch() -> None:
    """A static member that left temporarily has until its session expires, even with a pending revocation."""
    world = ConsumerWorld()
    world.beat("a", 0, instance_id="one", rebalance_timeout_ms=10_000)
    world.beat("b", 0)
    world.beat("a", 1, instance_id="one")
    assert world.consumers.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    world.beat("a", -2, instance_id="one")
    world.pass_ms(10_000)
    assert sorted(world.consumers.members) == ["a", "b"]
    world.beat("b", 2)
    world.pass_ms(SESSION_MS - 10_000)
    assert list(world.consumers.members) == ["b"], "its session has expired"


@pytest.mark.parametrize("how", ["names", "pattern"])
def test_topics_of_a_leaving_member_are_removed_from_the_subscription(how: str) -> None:
    """The metadata hash must match the remaining subscriptions; otherwise the group would rebalance again."""
    world = ConsumerWorld(t=4, u=2)
    world.beat("a", 0)
    if how == "names":
        world.beat("b", 0, names=["t", "u"])
    else:
        world.beat("b", 0, subscribed_topic_regex="[tu]")
        world.pass_ms(1)
    world.settle("a", "b")
    both = world.consumers.metadata_hash
    world.beat("b", -1)
    hashes = TopicHashes()
    assert both == hashes.of_group(["t", "u"], world.image)
    assert world.consumers.metadata_hash == hashes.of_group(["t"], world.image)
    world.settle("a")
    epoch = world.consumers.group_epoch
    world.reload()
    world.settle("a")
    assert world.consumers.group_epoch == epoch, "a reloaded shard finds its topics unchanged"


def test_a_pattern_is_removed_when_all_its_members_leave_together() -> None:
    world = ConsumerWorld(t=4, u=2)
    world.beat("a", 0)
    for member in ("b", "c"):
        world.beat(member, 0, subscribed_topic_regex="[tu]")
    world.pass_ms(1)
    assert set(world.consumers.resolved) == {"[tu]"}
    assert world.leave(("b", None), ("c", None)) == [ErrorCode.NONE] * 2
    assert (world.consumers.resolved, world.consumers.regexes) == ({}, {})
    assert set(world.consumers.subscribed) == {"t"}
    assert world.consumers.metadata_hash == TopicHashes().of_group(["t"], world.image)


def test_a_pattern_remains_while_a_member_uses_it() -> None:
    world = ConsumerWorld(t=4, u=2)
    for member in ("b", "c"):
        world.beat(member, 0, subscribed_topic_regex="[tu]")
    world.pass_ms(1)
    world.settle("b", "c")
    epoch = world.consumers.members["b"].member_epoch
    world.beat("b", epoch, subscribed_topic_regex="", names=["t"])
    assert set(world.consumers.resolved) == {"[tu]"}
    world.beat("c", world.consumers.members["c"].member_epoch, subscribed_topic_regex="", names=["t"])
    assert world.consumers.resolved == {}


def test_topic_hashes_are_discarded_with_the_last_subscriber() -> None:
    world = ConsumerWorld(t=4, u=2)
    world.beat("a", 0)
    world.beat("b", 0, names=["t", "u"])
    world.beat("b", -1)
    hashes = world.machine.consumer._hashes
    assert set(hashes._known) == {"t"}


def test_timeouts_restart_after_a_failover() -> None:
    world = ConsumerWorld()
    world.beat("a", 0)
    world.beat("b", 0)
    world.beat("a", 1)
    world.pass_ms(SESSION_MS - 1)
    world.reload()
    world.pass_ms(SESSION_MS - 1)
    world.beat("a", 1, owned={"t": [0, 1, 2, 3]})
    world.beat("b", 2)
    assert sorted(world.consumers.members) == ["a", "b"]
    world.pass_ms(REBALANCE_MS - SESSION_MS + 1)
    assert list(world.consumers.members) == ["b"], "it still has partitions to revoke"


def test_a_static_member_may_leave_temporarily() -> None:
    world = ConsumerWorld()
    two(world, a="one", b="two")
    before = world.owned("a")
    response = world.beat("a", -2, instance_id="one")
    assert (response.member_epoch, response.member_id) == (-2, "a")
    assert world.owned("a") == before, "its partitions are kept"
    assert world.epoch_and_assignment(world.beat("b", 2, instance_id="two")) == (2, None)
    # It rejoins with a new id, and no other member is affected.
    assert world.epoch_and_assignment(world.beat("c", 0, instance_id="one")) == (2, before)
    assert world.consumers.group_epoch == 2
    assert world.error("a", 2, instance_id="one") is ErrorCode.FENCED_INSTANCE_ID
    check_invariants(world.consumers)


def test_an_absent_static_member_is_removed() -> None:
    world = ConsumerWorld()
    two(world, a="one", b="two")
    world.beat("a", -2, instance_id="one")
    world.pass_ms(SESSION_MS - 1)
    world.beat("b", 2, instance_id="two")
    world.pass_ms(1)
    assert list(world.consumers.members) == ["b"]
    assert world.consumers.static_members == {"two": "b"}


def test_an_instance_id_belongs_to_one_member() -> None:
    world = ConsumerWorld()
    world.beat("a", 0, instance_id="one")
    response = world.beat("b", 0, instance_id="one")
    assert isinstance(response, KafkaError)
    assert response.code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert response.message == (
        "Static member b with instance id one cannot join the group because the instance id is owned by "
        "a member."
    )
    assert world.error("b", 1, instance_id="one") is ErrorCode.FENCED_INSTANCE_ID
    assert world.error("b", -1, instance_id="one") is ErrorCode.FENCED_INSTANCE_ID
    assert world.error("b", -2, instance_id="two") is ErrorCode.UNKNOWN_MEMBER_ID
    world.beat("a", -1, instance_id="one")
    assert world.epoch_and_assignment(world.beat("b", 0, instance_id="one"))[0] == 3


@pytest.mark.parametrize("kind", ["empty", "not empty"])
def test_only_an_empty_group_can_be_deleted(kind: str) -> None:
    world = ConsumerWorld()
    world.beat("a", 0)
    if kind == "empty":
        world.beat("a", -1)
    results: list[Any] = []
    world.ask(lambda machine, context: machine.delete([GROUP], context)).then(results.append, results.append)
    if kind == "empty":
        assert results == [{GROUP: ErrorCode.NONE}]
        assert world.machine.table.get(GROUP) is None
        world.reload()
        assert world.machine.table.get(GROUP) is None
    else:
        assert results == [{GROUP: ErrorCode.NON_EMPTY_GROUP}]


def test_a_static_member_that_returns_has_the_target_of_its_predecessor_in_the_log() -> None:
    world = ConsumerWorld()
    world.beat("a", 0, instance_id="one")
    target = world.target("a")
    world.beat("a", -2, instance_id="one")
    world.beat("b", 0, instance_id="one")
    world.reload()
    assert [group.group_id for group in world.machine.table] == [GROUP]
    assert world.consumers.target.keys() == {"b"}
    assert world.target("b") == target != {}
