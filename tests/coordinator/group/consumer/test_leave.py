"""Members of consumer groups that go, late members, and static members that come back."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.group.consumer.member import MemberState
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
    world.beat("a", 1, owned={"t": [0, 1]})
    for _ in range(9):
        world.pass_ms(10_000)
        world.beat("a", 2)
        world.beat("b", 2)
    assert sorted(world.consumers.members) == ["a", "b"]


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
