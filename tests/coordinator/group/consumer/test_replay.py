"""Consumer groups and the log: a reloaded shard has the same groups after any history."""

from __future__ import annotations

import random
from typing import Any

import pytest

from barnabas.base.errors import KafkaError
from barnabas.base.ids import Uuid
from barnabas.coordinator.entry import GROUP as GROUP_COORDINATOR
from barnabas.coordinator.entry import Entry, decode, encode
from barnabas.coordinator.group.consumer import entries
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import ClassicMemberMetadata, ConsumerMember, MemberState
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.protocol.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from tests.coordinator.group.worlds.classic_world import GROUP
from tests.coordinator.group.worlds.consumer_world import ConsumerWorld, check_invariants, durable

MEMBERS = ("a", "b", "c", "d")
STEPS = 40
PATTERN = "[tu].*"


def step(world: ConsumerWorld, rng: random.Random) -> None:
    """A random event in the life of a group."""
    known = world.machine.table.get(GROUP)
    members = known.members if isinstance(known, ConsumerGroup) else {}
    member_id = rng.choice(MEMBERS)
    member = members.get(member_id)
    draw = rng.random()
    if draw < 0.05:
        world.topic(rng.choice("tu"), rng.randint(1, 8))
    elif draw < 0.1:
        world.pass_ms(rng.choice([1_000, 20_000, 61_000]))
    elif member is None or draw < 0.15:
        instance = f"instance {member_id}" if rng.random() < 0.3 else None
        subscribed: dict[str, Any] = {"subscribed_topic_regex": PATTERN} if rng.random() < 0.3 else {}
        names = rng.sample(["t", "u"], rng.randint(1, 2))
        world.beat(member_id, 0, names=names, instance_id=instance, **subscribed)
    elif draw < 0.25:
        world.beat(member_id, rng.choice([-1, -2]), instance_id=member.instance_id)
    else:
        owned = {
            world.image.topics[topic].name: sorted(partitions)
            for topic, partitions in member.assigned.items()
        }
        world.beat(
            member_id,
            member.member_epoch,
            owned=owned if rng.random() < 0.7 else None,
            names=["u"] if rng.random() < 0.1 else None,
            instance_id=member.instance_id,
        )


@pytest.mark.parametrize("seed", range(12))
def test_a_group_is_the_same_after_a_restart_at_any_moment(seed: int) -> None:
    world, rng = ConsumerWorld(t=3, u=2), random.Random(seed)
    epoch = 0
    for _ in range(STEPS):
        step(world, rng)
        group = world.machine.table.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            continue
        check_invariants(group)
        assert group.group_epoch >= epoch, "epochs only grow"
        epoch = group.group_epoch
        other = GroupMachine(0)
        world.store.load_into(other)
        assert durable(other.table.find_kind(GROUP, ConsumerGroup)) == durable(group)


def test_entries_round_trip() -> None:
    world = ConsumerWorld()
    world.beat("a", 0, subscribed_topic_regex="t", names=["t"])
    world.pass_ms(1)
    world.beat("a", -1)
    assert len(world.store.entries) > 8
    for entry in world.store.entries:
        read = decode(*encode(entry), GROUP_COORDINATOR)
        assert isinstance(read, Entry)
        assert (read.key, read.value) == (entry.key, entry.value)


def test_tombstones_of_missing_records_are_ignored() -> None:
    machine = GroupMachine(0)
    for entry in entries.group_tombstone("g", ["a"], ["x.*"]):
        machine.apply(entry, None)
    assert machine.table.get("g") is None
    machine.apply(entries.group_epoch("g", 3, 0), None)
    for entry in (*entries.member_tombstone("g", "nobody"), entries.regex_tombstone("g", "x.*")):
        machine.apply(entry, None)
    assert machine.table.find_kind("g", ConsumerGroup).group_epoch == 3


def test_a_partition_with_two_owners_in_the_log_belongs_to_the_later_one() -> None:
    world = ConsumerWorld()
    world.beat("a", 0)
    topic = world.image.topic_ids["t"]
    stolen = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions(topic_id=topic, partitions=[0])
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=1,
        previous_member_epoch=0,
        state=0,
        assigned_partitions=[stolen],
        partitions_pending_revocation=[],
    )
    world.machine.apply(
        Entry(ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="b"), value), None
    )
    world.machine.apply(entries.current_assignment_tombstone(GROUP, "a"), None)
    assert world.consumers.is_owned(topic, 0)
    assert not world.consumers.is_owned(topic, 1)


def test_a_state_of_a_later_release_is_unknown() -> None:
    world = ConsumerWorld()
    world.beat("a", 0)
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=1,
        previous_member_epoch=0,
        state=42,
        assigned_partitions=[],
        partitions_pending_revocation=[],
    )
    world.machine.apply(
        Entry(ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a"), value), None
    )
    assert world.consumers.members["a"].state is MemberState.UNKNOWN
    answer = world.beat("a", 1, owned={"t": [0]})
    assert isinstance(answer, KafkaError)
    assert world.epoch_and_assignment(world.beat("a", 1, owned={})) == (1, {"t": [0, 1, 2, 3]})


def test_partition_metadata_of_older_releases_is_removed() -> None:
    world = ConsumerWorld()
    world.beat("a", 0)
    value = ConsumerGroupPartitionMetadataValue(topics=[])
    world.machine.apply(Entry(ConsumerGroupPartitionMetadataKey(group_id=GROUP), value), None)
    world.beat("a", 1, names=[])
    assert Entry(ConsumerGroupPartitionMetadataKey(group_id=GROUP), None) in world.store.entries
    assert not world.consumers.has_partition_metadata


def test_a_tombstone_of_a_replaced_static_member_keeps_the_instance_id_of_its_successor() -> None:
    group = ConsumerGroup(GROUP)
    for member_id in ("old", "new"):
        group.update_member(ConsumerMember(member_id, instance_id="one"))
    group.remove_member("old")
    assert group.static_members == {"one": "new"}
    group.remove_member("new")
    assert group.static_members == {}


def test_a_static_member_inherits_the_target_of_the_one_it_replaces() -> None:
    group = ConsumerGroup(GROUP)
    topic = Uuid.from_words(1, 1)
    target = {topic: frozenset({1, 2})}
    group.static_members["one"] = "a"
    group.update_target("a", target)
    assert group.target_of("b", "one") == target
    assert group.target_of("b", "two") == {}
    assert group.target_of("a", None) == target
    assert group.target_of("b", None) == {}
    group.remove_target("a")
    assert group.target_of("b", "one") == {}


@pytest.mark.parametrize(
    ("leaving", "expected"),
    [("", False), ("x", False), ("xy", True), ("xya", True), ("a", False), ("ab", False), ("xab", False)],
)
def test_only_classic_members_remain_when_all_others_leave(leaving: str, expected: bool) -> None:
    """`a`, `b` and `c` use the classic protocol, `x` and `y` the consumer protocol."""
    group = ConsumerGroup(GROUP)
    for name in "abcxy":
        classic = ClassicMemberMetadata(10_000, ()) if name in "abc" else None
        group.update_member(ConsumerMember(name, classic=classic))
    members = [group.members[name] for name in leaving]
    assert group.all_use_classic_protocol_except(members) is expected


def test_states_have_apache_kafkas_numbers() -> None:
    numbers = {state.name: state.value for state in MemberState}
    assert numbers == {"STABLE": 0, "UNREVOKED_PARTITIONS": 1, "UNRELEASED_PARTITIONS": 2, "UNKNOWN": 127}
    assert [MemberState.of(number).name for number in (0, 2, 3, 127)] == [
        "STABLE",
        "UNRELEASED_PARTITIONS",
        "UNKNOWN",
        "UNKNOWN",
    ]
