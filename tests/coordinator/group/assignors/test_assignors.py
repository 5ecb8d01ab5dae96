"""The server-side assignors compared with Apache Kafka's own classes (AssignProbe.java in tests/verify)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.coordinator.group.assignors import range as range_assignor
from barnabas.coordinator.group.assignors import uniform
from barnabas.coordinator.group.assignors.load import LoadOrder
from barnabas.coordinator.group.assignors.spec import AssignorError, GroupSpec, MemberSpec
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import ConsumerMember
from barnabas.coordinator.group.subscription.target import compute_target
from barnabas.metadata.image import EMPTY_IMAGE
from tests.coordinator.group.worlds.assign_world import answer, cases, group_of, image_of, member_of

VECTORS = Path(__file__).parents[3] / "data" / "coordinator" / "assignors.jsonl.gz"


def vectors() -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(VECTORS.read_bytes()).splitlines()]


def test_targets_and_hashes_match_apache_kafka() -> None:
    seen = set()
    for row in vectors():
        case, expected = row["case"], row["answer"]
        actual = answer(case)
        # Members without partitions may be omitted.
        targets = {member: {} for member in actual["targets"]} | expected["targets"]
        assert actual["targets"] == targets, case
        assert actual["written"] == sorted(expected["written"]), case
        assert (actual["hashes"], actual["hash"]) == (expected["hashes"], expected["hash"])
        seen.add((case["assignor"], case["homogeneous"]))
    assert len(seen) == 4, "both assignors, with homogeneous and heterogeneous subscriptions"


@pytest.mark.parametrize("seed", range(100, 130))
def test_every_partition_of_a_subscribed_topic_has_exactly_one_owner(seed: int) -> None:
    for case in cases(seed):
        image, group, changed = image_of(case), group_of(case), member_of(case["changed"])
        members = {**group.members, changed.member_id: changed}
        if changed.instance_id in group.static_members:
            members.pop(group.static_members[changed.instance_id])
            members[changed.member_id] = changed
        names: set[str] = set()
        for member in members.values():
            names |= member.subscribed_names
            if member.regex in group.resolved:
                names |= group.resolved[member.regex].topics
        topics = [topic for name in names if (topic := image.topic_named(name)) is not None]
        expected = {(str(topic.id), number) for topic in topics for number in topic.partitions}
        targets = answer(case)["targets"]
        owned = [
            (topic, number)
            for target in targets.values()
            for topic, numbers in target.items()
            for number in numbers
        ]
        assert len(owned) == len(set(owned))
        assert set(owned) == expected


def spec_of(homogeneous: bool, count: int | None) -> GroupSpec:
    topic = Uuid.from_words(1, 1)
    members = {name: MemberSpec((topic,), 1) for name in ("a", "b")}
    return GroupSpec(members, homogeneous, {}, lambda _: count)


@pytest.mark.parametrize("assign", [uniform.assign, range_assignor.assign])
@pytest.mark.parametrize("homogeneous", [True, False])
def test_a_topic_that_does_not_exist_cannot_be_assigned(assign: Any, homogeneous: bool) -> None:
    with pytest.raises(AssignorError, match="exist"):
        assign(spec_of(homogeneous, None))
    assert sorted(len(assignment) for assignment in assign(spec_of(homogeneous, 1)).values()) == [0, 1]


def test_members_are_ordered_as_java_orders_strings() -> None:
    """By UTF-16 units: a character beyond the first plane comes before the last ones of that plane."""
    topic = Uuid.from_words(1, 1)
    ordered = ["a", "z\u00e9", "\u4e2d", "\U0001f600a", "\U0001f600b", "\ufffd"]
    members = {name: MemberSpec((topic,), 1) for name in reversed(ordered)}
    assigned = range_assignor.assign(GroupSpec(members, True, {}, lambda _: len(ordered)))
    owners = {number: name for name in ordered for number in assigned[name][topic]}
    assert [owners[number] for number in range(len(ordered))] == ordered


def test_a_group_without_members_has_no_assignment() -> None:
    empty = GroupSpec({}, True, {}, lambda _: 1)
    assert uniform.assign(empty) == range_assignor.assign(empty) == {}


def test_unassigned_partitions_are_an_error() -> None:
    topic = Uuid.from_words(1, 1)
    # A member owns more partitions than exist, so some seem to have no owner left.
    members = {"a": MemberSpec((topic,), 1, before={topic: frozenset(range(9))})}
    with pytest.raises(AssignorError, match="left unassigned"):
        uniform.assign(GroupSpec(members, True, {}, lambda _: 3))


def test_an_assignor_error_is_returned_to_the_member() -> None:
    def faulty(_: GroupSpec) -> Any:
        raise AssignorError("no")

    with pytest.raises(
        KafkaError, match="Failed to compute a new target assignment for epoch 3: no"
    ) as raised:
        compute_target(ConsumerGroup("g"), 3, faulty, ConsumerMember("a"), EMPTY_IMAGE, homogeneous=True)
    assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_members_without_partitions_to_give_up_are_skipped() -> None:
    loads = [1, 4, 4]
    order = LoadOrder([0, 1, 2], loads)
    assert order.imbalance == 3
    first = order.next_most_loaded()
    assert first == 2
    order.exclude_most_loaded()
    assert order.next_most_loaded() == 1
    order.exclude_most_loaded()
    assert order.next_most_loaded() == 0
    order.exclude_most_loaded()
    assert order.next_most_loaded() is None


def test_members_with_equal_loads_give_up_partitions_in_turn() -> None:
    order = LoadOrder([0, 1, 2], [2, 2, 2])
    assert [order.next_most_loaded() for _ in range(6)] == [2, 1, 0, 2, 1, 0]
