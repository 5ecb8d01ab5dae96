"""Members of consumer groups that go, late members, and static members that come back."""

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
    """A group of two at rest."""
    world.beat("a", 0, instance_id=more.get("a"))
    world.beat("b", 0, instance_id=more.get("b"))
    world.settle("a", "b")


def test_who_leaves_gives_all_to_the_others() -> None:
    world = ConsumerWorld()
    two(world)
    assert world.told(world.beat("a", -1)) == (-1, None)
    assert world.consumers.group_epoch == 3
    assert world.consumers.state_name == "Assigning"
    assert world.told(world.beat("b", 2)) == (3, {"t": [0, 1, 2, 3]})
    world.beat("b", -1)
    assert world.consumers.state_name == "Empty"
    assert world.consumers.subscribed == {}


def test_a_member_that_is_silent_for_its_session_is_out() -> None:
    world = ConsumerWorld()
    two(world)
    world.pass_ms(SESSION_MS - 1)
    world.beat("b", 2)
    world.pass_ms(1)
    assert list(world.consumers.members) == ["b"]
    assert world.error("a", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_give_up_in_time_is_out() -> None:
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


def test_giving_up_ends_the_time_for_it() -> None:
    world = ConsumerWorld()
    world.beat("a", 0)
    world.beat("b", 0)
    world.beat("a", 1)
    assert len(world.machine.timers) == 4
    world.beat("a", 1, owned={"t": [0, 1]})
    assert len(world.machine.timers) == 3, "two sessions and the clean-up are left"
    for _ in range(9):
        world.pass_ms(10_000)
        world.beat("a", 2)
        world.beat("b", 2)
    assert sorted(world.consumers.members) == ["a", "b"]


def test_time_for_giving_up_counts_for_the_epoch_in_which_it_began_alone() -> None:
    """A static member that goes for a while has until the end of its session, whatever it owed before."""
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
    assert list(world.consumers.members) == ["b"], "its session is over"


@pytest.mark.parametrize("how", ["names", "pattern"])
def test_what_a_leaving_member_alone_subscribed_to_concerns_the_group_no_more(how: str) -> None:
    """The group's hash of its topics is that of those who stay: otherwise they would be dealt out once more."""
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
    assert world.consumers.group_epoch == epoch, "a shard that looks at its topics anew finds them unchanged"


def test_a_pattern_goes_with_the_last_of_its_users_though_they_leave_together() -> None:
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


def test_a_pattern_stays_while_somebody_uses_it() -> None:
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


def test_what_is_known_of_topics_is_forgotten_with_their_last_subscriber() -> None:
    world = ConsumerWorld(t=4, u=2)
    world.beat("a", 0)
    world.beat("b", 0, names=["t", "u"])
    world.beat("b", -1)
    hashes = world.machine.consumer._hashes
    assert set(hashes._known) == {"t"}


def test_times_begin_anew_after_a_restart() -> None:
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
    assert list(world.consumers.members) == ["b"], "it still owes partitions"


def test_a_static_member_may_be_away_for_a_while() -> None:
    world = ConsumerWorld()
    two(world, a="one", b="two")
    before = world.owned("a")
    answer = world.beat("a", -2, instance_id="one")
    assert (answer.member_epoch, answer.member_id) == (-2, "a")
    assert world.owned("a") == before, "what it owns is kept for it"
    assert world.told(world.beat("b", 2, instance_id="two")) == (2, None)
    # It comes back under a new id, and nobody else hears of it.
    assert world.told(world.beat("c", 0, instance_id="one")) == (2, before)
    assert world.consumers.group_epoch == 2
    assert world.error("a", 2, instance_id="one") is ErrorCode.FENCED_INSTANCE_ID
    check_invariants(world.consumers)


def test_a_static_member_that_stays_away_is_out() -> None:
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
    answer = world.beat("b", 0, instance_id="one")
    assert isinstance(answer, KafkaError)
    assert answer.code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert answer.message == (
        "Static member b with instance id one cannot join the group because the instance id is owned by "
        "a member."
    )
    assert world.error("b", 1, instance_id="one") is ErrorCode.FENCED_INSTANCE_ID
    assert world.error("b", -1, instance_id="one") is ErrorCode.FENCED_INSTANCE_ID
    assert world.error("b", -2, instance_id="two") is ErrorCode.UNKNOWN_MEMBER_ID
    world.beat("a", -1, instance_id="one")
    assert world.told(world.beat("b", 0, instance_id="one"))[0] == 3


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
