"""Sticky assignors: balanced, and with as few moves as that allows."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Mapping

import pytest

from barnabas.client.consumer.assignors.balance import balanced_plan
from barnabas.client.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from barnabas.client.group_protocol import Subscription
from barnabas.client.model import TopicPartition

Plan = Mapping[str, Iterable[TopicPartition]]
NO_GENERATION = -1


def parts(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def data(owned: Iterable[TopicPartition], generation: int) -> bytes:
    """What a member of the sticky assignor reports."""
    assignor = StickyAssignor()
    assignor.assigned(owned, generation)
    reported = assignor.user_data()
    assert reported is not None
    return reported


def sticky(
    partitions: Mapping[str, int], members: Mapping[str, tuple[Iterable[str], Iterable[TopicPartition], int]]
) -> dict[str, list[TopicPartition]]:
    """The plan for members with (topics, owned partitions, generation of that)."""
    subscriptions = {
        name: Subscription(topics=tuple(topics), user_data=data(owned, generation))
        for name, (topics, owned, generation) in members.items()
    }
    return StickyAssignor().assign(partitions, subscriptions)


def cooperative(
    partitions: Mapping[str, int], members: Mapping[str, tuple[Iterable[str], Iterable[TopicPartition], int]]
) -> dict[str, list[TopicPartition]]:
    subscriptions = {
        name: Subscription(topics=tuple(topics), owned=tuple(owned), generation_id=generation)
        for name, (topics, owned, generation) in members.items()
    }
    return CooperativeStickyAssignor().assign(partitions, subscriptions)


def as_sets(plan: Plan) -> dict[str, set[TopicPartition]]:
    return {member: set(mine) for member, mine in plan.items()}


def check_complete(
    plan: Mapping[str, list[TopicPartition]], partitions: Mapping[str, int], topics: Mapping[str, set[str]]
) -> None:
    """Every partition of a subscribed topic has one owner, which subscribes to it."""
    owned = [partition for mine in plan.values() for partition in mine]
    wanted = set().union(*topics.values())
    assert len(owned) == len(set(owned))
    assert set(owned) == {
        TopicPartition(topic, number)
        for topic, count in partitions.items()
        if topic in wanted
        for number in range(count)
    }
    for member, mine in plan.items():
        assert {partition.topic for partition in mine} <= topics[member]


def check_balanced(plan: Mapping[str, list[TopicPartition]], topics: Mapping[str, set[str]]) -> None:
    """No member could take a partition from one with two more than it has."""
    for member, mine in plan.items():
        for other, theirs in plan.items():
            if any(partition.topic in topics[member] for partition in theirs):
                assert len(theirs) <= len(mine) + 1, (member, other)


# ---------------------------------------------------------------------------------------- equal subscriptions


@pytest.mark.parametrize("seed", range(20))
def test_members_that_come_and_go_cause_as_few_moves_as_possible(seed: int) -> None:
    rng = random.Random(seed)
    partitions = {"t": rng.randint(1, 9), "u": rng.randint(1, 9)}
    total = sum(partitions.values())
    names = [f"m{number}" for number in range(rng.randint(2, 5))]
    topics = {name: {"t", "u"} for name in [*names, "new"]}
    plan = sticky(partitions, dict.fromkeys(names, ("tu", (), NO_GENERATION)))
    for generation in range(1, 4):
        check_complete(plan, partitions, topics)
        sizes = [len(mine) for mine in plan.values()]
        assert max(sizes) - min(sizes) <= 1
        again = sticky(partitions, {name: ("tu", mine, generation) for name, mine in plan.items()})
        assert as_sets(again) == as_sets(plan), "nothing changed"
        left = {name: mine for name, mine in plan.items() if name != names[0]}
        after = sticky(partitions, {name: ("tu", mine, generation) for name, mine in left.items()})
        check_complete(after, partitions, topics)
        if left:
            assert all(set(left[name]) <= set(after[name]) for name in left), "they keep what they have"
        joined = {**{name: ("tu", mine, generation) for name, mine in plan.items()}, "new": ("tu", (), -1)}
        more = sticky(partitions, joined)
        check_complete(more, partitions, topics)
        assert len(more["new"]) in (total // (len(names) + 1), total // (len(names) + 1) + 1)
        for name in names:
            assert set(more[name]) <= set(plan[name]), "partitions go to the new member alone"
        plan = again


def test_a_partition_that_two_members_claim_in_one_generation_is_nobodys() -> None:
    both = {"a": ("t", parts("t", 0, 1), 5), "b": ("t", parts("t", 1, 2), 5)}
    assert as_sets(sticky({"t": 3}, both)) == {"a": {*parts("t", 0, 1)}, "b": {*parts("t", 2)}}
    three = {**both, "c": ("t", parts("t", 1), 5)}
    assert as_sets(sticky({"t": 3}, three)) == {
        "a": {*parts("t", 0)},
        "b": {*parts("t", 2)},
        "c": {*parts("t", 1)},
    }


@pytest.mark.parametrize(("older", "newer"), [("a", "b"), ("b", "a")])
def test_the_newest_claim_counts(older: str, newer: str) -> None:
    members = {older: ("t", parts("t", 0, 1), 3), newer: ("t", parts("t", 0, 1), 4)}
    plan = sticky({"t": 4}, members)
    assert as_sets(plan) == {newer: {*parts("t", 0, 1)}, older: {*parts("t", 2, 3)}}


def test_claims_of_partitions_that_do_not_exist_are_ignored() -> None:
    members = {"a": ("t", parts("t", 1, 2, 7) + parts("gone", 0), 3), "b": ("t", (), -1)}
    assert as_sets(sticky({"t": 3}, members)) == {"a": {*parts("t", 1, 2)}, "b": {*parts("t", 0)}}


def test_who_has_more_keeps_it_only_as_far_as_it_is_fair() -> None:
    members = {
        "a": ("t", parts("t", 0, 1, 2, 3), 1),
        "b": ("t", parts("t", 4), 1),
        "c": ("t", (), NO_GENERATION),
    }
    plan = sticky({"t": 5}, members)
    assert plan["a"] == parts("t", 0, 1)
    assert as_sets(plan)["b"] > {*parts("t", 4)}
    assert sorted(map(len, plan.values())) == [1, 2, 2]


# ----------------------------------------------------------------------------------- different subscriptions


@pytest.mark.parametrize("seed", range(40))
def test_with_different_subscriptions_the_plan_is_complete_balanced_and_stable(seed: int) -> None:
    rng = random.Random(seed)
    partitions = {topic: rng.randint(1, 7) for topic in "tuv"}
    topics = {f"m{number}": set(rng.sample("tuv", rng.randint(1, 3))) for number in range(rng.randint(2, 5))}
    topics["m0"] = {"t", "u", "v"}
    topics["m1"] = {rng.choice("tuv")}
    plan = sticky(partitions, {name: (wanted, (), -1) for name, wanted in topics.items()})
    check_complete(plan, partitions, topics)
    check_balanced(plan, topics)
    again = sticky(partitions, {name: (topics[name], mine, 1) for name, mine in plan.items()})
    assert as_sets(again) == as_sets(plan)
    # A member leaves, and the others keep what they have.
    left = {name: wanted for name, wanted in topics.items() if name != "m1"}
    if len({frozenset(wanted) for wanted in left.values()}) > 1:
        after = sticky(partitions, {name: (left[name], plan[name], 1) for name in left})
        check_complete(after, partitions, left)
        check_balanced(after, left)
        kept = sum(len(set(plan[name]) & set(after[name])) for name in left)
        assert kept >= sum(len(plan[name]) for name in left) - len(plan["m1"])


def test_a_member_with_too_many_gives_some_up() -> None:
    members = {"a": ("tu", parts("t", 0, 1, 2, 3) + parts("u", 0), 1), "b": ("t", (), NO_GENERATION)}
    plan = sticky({"t": 4, "u": 1}, members)
    assert parts("u", 0)[0] in plan["a"], "no other member wants it"
    assert (len(plan["a"]), len(plan["b"])) == (3, 2)
    assert set(plan["a"]) | set(plan["b"]) == {*parts("t", 0, 1, 2, 3), *parts("u", 0)}


def test_a_partition_returns_to_the_member_that_had_it_before() -> None:
    """An older claim tells where it was; of two equally good members, it is the better one."""
    members = {
        "a": ("tu", parts("t", 0, 1, 2) + parts("u", 0), 4),
        "b": ("t", (), NO_GENERATION),
        "c": ("t", parts("t", 0), 3),
    }
    plan = sticky({"t": 3, "u": 1}, members)
    assert plan["c"] == parts("t", 0)
    assert sorted(map(len, plan.values())) == [1, 1, 2]


def test_what_a_member_no_longer_subscribes_to_goes_to_others() -> None:
    members = {"a": ("u", parts("t", 0, 1) + parts("u", 0), 1), "b": ("tu", (), NO_GENERATION)}
    plan = sticky({"t": 2, "u": 1}, members)
    assert as_sets(plan) == {"a": {*parts("u", 0)}, "b": {*parts("t", 0, 1)}}


def test_topics_without_subscribers_or_partitions_are_left_out() -> None:
    subscriptions = {"a": Subscription(topics=("t", "nowhere")), "b": Subscription(topics=("u",))}
    plan = balanced_plan({"t": 1, "u": 2, "other": 5}, subscriptions, {}, {})
    assert as_sets(plan) == {"a": {*parts("t", 0)}, "b": {*parts("u", 0, 1)}}


# ------------------------------------------------------------------------------------------------ user data


def test_what_was_assigned_is_reported_with_its_generation() -> None:
    assignor = StickyAssignor()
    assert assignor.user_data() is None
    owned = parts("t", 0, 3) + parts("ü", 1)
    assignor.assigned(owned, 7)
    reported = assignor.user_data()
    assert reported == b"".join(
        [
            struct.pack(">ih1sii", 2, 1, b"t", 2, 0),
            struct.pack(">ih2si", 3, 2, "ü".encode(), 1),
            struct.pack(">ii", 1, 7),
        ]
    )
    claimed, generation = assignor.claims(Subscription(topics=("t",), user_data=reported))
    assert (list(claimed), generation) == (owned, 7)
    without_generation = Subscription(topics=("t",), user_data=reported[:-4])
    assert assignor.claims(without_generation) == (owned, NO_GENERATION)


@pytest.mark.parametrize(
    "given",
    [
        None,
        b"",
        b"x",
        struct.pack(">i", -1),
        struct.pack(">i", 5),
        struct.pack(">ih1si", 1, 1, b"t", 2**30),
        struct.pack(">ih1si", 1, 1, b"t", -1),
        struct.pack(">ih1si", 1, 1, b"\xff", 0),
    ],
)
def test_user_data_of_another_format_claims_nothing(given: bytes | None) -> None:
    claimed, generation = StickyAssignor().claims(Subscription(topics=("t",), user_data=given))
    assert (list(claimed), generation) == ([], NO_GENERATION)


def test_the_generation_of_a_cooperative_member_is_in_either_place() -> None:
    assignor = CooperativeStickyAssignor()
    assert assignor.user_data() == struct.pack(">i", NO_GENERATION)
    assignor.assigned(parts("t", 0), 6)
    assert assignor.user_data() == struct.pack(">i", 6)
    owned = tuple(parts("t", 0))
    for subscription, expected in (
        (Subscription(topics=("t",), owned=owned, generation_id=9), 9),
        (Subscription(topics=("t",), owned=owned, generation_id=9, user_data=struct.pack(">i", 6)), 9),
        (Subscription(topics=("t",), owned=owned, user_data=struct.pack(">i", 6)), 6),
        (Subscription(topics=("t",), owned=owned, user_data=b"long one"), NO_GENERATION),
        (Subscription(topics=("t",), owned=owned), NO_GENERATION),
    ):
        assert assignor.claims(subscription) == (owned, expected)


# ---------------------------------------------------------------------------------------------- cooperative


@pytest.mark.parametrize("others", ["t", "tu"])
def test_a_partition_that_moves_is_revoked_before_it_is_assigned(others: str) -> None:
    """KIP-429.  With equal subscriptions and with different ones."""
    first = {"a": ("tu", parts("t", 0, 1, 2, 3), 1), "b": (others, (), NO_GENERATION)}
    plan = cooperative({"t": 4}, first)
    assert len(plan["a"]) == 2
    assert plan["b"] == [], "its partitions are not free yet"
    second = {"a": ("tu", plan["a"], 2), "b": (others, (), 2)}
    after = cooperative({"t": 4}, second)
    assert after["a"] == plan["a"]
    assert set(after["a"]) | set(after["b"]) == {*parts("t", 0, 1, 2, 3)}
    assert len(after["b"]) == 2


def test_a_disputed_partition_is_not_assigned_before_all_have_given_it_up() -> None:
    members = {"a": ("t", parts("t", 0, 1), 5), "b": ("t", parts("t", 1, 2), 5)}
    plan = cooperative({"t": 3}, members)
    assert as_sets(plan) == {"a": {*parts("t", 0)}, "b": {*parts("t", 2)}}


def test_free_partitions_are_assigned_at_once() -> None:
    members = {"a": ("t", parts("t", 0), 1), "b": ("t", (), NO_GENERATION)}
    assert as_sets(cooperative({"t": 2}, members)) == {"a": {*parts("t", 0)}, "b": {*parts("t", 1)}}


def test_free_partitions_move_before_owned_ones() -> None:
    members = {
        "a": ("tu", parts("t", 0), 1),
        "b": ("t", parts("t", 1), 1),
        "c": ("u", parts("u", 1, 2), 1),
    }
    plan = sticky({"t": 3, "u": 3}, members)
    assert as_sets(plan) == {
        "a": {*parts("t", 0), *parts("u", 0)},
        "b": {*parts("t", 1, 2)},
        "c": {*parts("u", 1, 2)},
    }
