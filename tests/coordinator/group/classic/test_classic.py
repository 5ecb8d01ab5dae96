"""Classic groups: records, describe, commits and deletion."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.entry import Entry, encode
from barnabas.coordinator.group.classic.group import ClassicGroup, ClassicState
from barnabas.coordinator.group.classic.member import ClassicMember
from barnabas.coordinator.group.classic.records import group_entry, group_from_record
from barnabas.protocol.records.group import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.coordinator.group.worlds.classic_world import GROUP, SESSION_MS, TOPIC, ClassicWorld
from tests.coordinator.shard_world import NOW_MS, PENDING, value_of

DAY_MS = 24 * 60 * 60 * 1000


def durable(world: ClassicWorld) -> object:
    """The state that must survive a restart."""
    group = world.group
    return (
        group.state,
        group.generation,
        group.type,
        group.protocol,
        group.leader_id,
        group.state_since_ms,
        group.subscribed_topics,
        dict(group.static_members),
        {
            member.member_id: (
                member.instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
                member.assignment,
                member.metadata_for(group.protocol),
            )
            for member in group.members.values()
        },
    )


@pytest.mark.parametrize("instances", [(), ("one", "two")])
def test_a_stable_group_is_the_same_after_a_restart(instances: tuple[str, ...]) -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2, instances=instances)
    before = durable(world)
    world.reload()
    assert durable(world) == before
    names = {member_id: name for name, member_id in world.group.static_members.items()}
    assert world.heartbeat(leader, 1, names.get(leader)) is ErrorCode.NONE
    assert world.sync(follower, 1).assignment == follower.encode()


@pytest.mark.trap
def test_an_unwritten_member_is_lost_and_must_rejoin() -> None:
    """Trap 26: JoinGroup and member state that was never logged is lost on failover: members must rejoin."""
    world = ClassicWorld()
    old = world.stable(1)[0]
    pending = world.new_id()
    joining = world.joining(version=3)
    world.reload()
    assert value_of(joining) is PENDING, "its connection broke"
    assert world.state == "Stable"
    assert set(world.group.members) == {old}
    assert world.join(pending).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(old, 1) is ErrorCode.NONE


def test_members_of_a_loaded_group_start_a_new_session() -> None:
    world = ClassicWorld()
    members = world.stable(2)
    world.pass_ms(SESSION_MS - 1)
    world.reload()
    world.pass_ms(SESSION_MS - 1)
    assert set(world.group.members) == set(members)
    world.pass_ms(1)
    assert world.state == "Empty"


def test_a_loaded_group_above_the_size_limit_rebalances() -> None:
    world = ClassicWorld()
    members = world.stable(3)
    world.with_settings(group_max_size="2")
    world.reload()
    assert world.state == "PreparingRebalance"
    joins = [world.joining(member) for member in members]
    responses = [value_of(promise) for promise in joins]
    assert responses[2].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [response.generation_id for response in responses[:2]] == [2, 2]


def test_generations_continue_after_a_restart() -> None:
    world = ClassicWorld()
    world.stable(1)
    world.pass_ms(SESSION_MS)
    world.reload()
    assert (world.state, world.group.generation) == ("Empty", 2)
    world.joining(version=3)
    world.pass_ms(3_000)
    assert world.group.generation == 3


def test_waiting_requests_fail_when_the_shard_is_dropped() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    joining = world.joining(first)
    error = KafkaError(ErrorCode.NOT_COORDINATOR)
    world.shard.drop(error)
    assert value_of(joining) is error
    assert world.group.state is ClassicState.DEAD
    assert second in world.group.members


# Records


def golden_group() -> ClassicGroup:
    group = ClassicGroup("g", 1_000)
    group.add(
        ClassicMember(
            "m",
            "i",
            "c",
            "/h",
            rebalance_timeout_ms=60_000,
            session_timeout_ms=10_000,
            protocols=(("range", b"sub"),),
        ),
        "consumer",
    )
    group.generation, group.protocol = 7, "range"
    return group


def test_the_record_matches_apache_kafka() -> None:
    key, value = encode(group_entry(golden_group(), {"m": b"asg"}))
    assert key == b"\0\2" + b"\0\1g"
    assert value == (
        b"\0\3"  # version
        b"\0\x08consumer"
        b"\0\0\0\x07"
        b"\0\x05range"
        b"\0\1m"  # leader
        b"\0\0\0\0\0\0\x03\xe8"  # current state timestamp
        b"\0\0\0\1"
        b"\0\1m\0\1i\0\1c\0\x02/h"
        b"\0\0\xea\x60\0\0\x27\x10"
        b"\0\0\0\x03sub\0\0\0\x03asg"
    )


def test_records_of_old_brokers_have_fewer_fields() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader="m",
        members=[
            GroupMetadataValue.MemberMetadata(
                member_id="m",
                client_id="c",
                client_host="/h",
                session_timeout=10_000,
                subscription=TOPIC,
                assignment=b"",
            )
        ],
    )
    group = group_from_record("g", value)
    assert group.state is ClassicState.STABLE
    assert group.members["m"].rebalance_timeout_ms == 10_000
    assert group.state_since_ms is None
    assert group.subscribed_topics == frozenset({"t"})


def test_a_group_whose_recorded_leader_is_not_a_member_gets_another_leader() -> None:
    entry = group_entry(golden_group(), {})
    assert isinstance(entry.value, GroupMetadataValue)
    entry.value.leader = "somebody"
    assert group_from_record("g", entry.value).leader_id == "m"
    entry.value.protocol = None
    with pytest.raises(ValueError, match="members and no protocol"):
        group_from_record("g", entry.value)


def test_an_unreadable_subscription_leaves_the_topics_unknown() -> None:
    world = ClassicWorld()
    world.stable(1, protocols=[("range", b"\0")])
    assert world.group.subscribed_topics is None
    assert world.group.is_subscribed_to("anything")


# Queries of other components


def test_groups_are_described() -> None:
    world = ClassicWorld()
    leader = world.stable(1)[0]
    described = world.machine.classic.describe(GROUP, 5)
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    member = described.members[0]
    assert (member.member_id, member.client_id, member.client_host) == (leader, "client", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (TOPIC, leader.encode())
    world.joining(version=3)
    described = world.machine.classic.describe(GROUP, 5)
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [member.member_metadata for member in described.members] == [b"", b""]


def test_a_missing_group_is_dead_and_from_version_6_an_error() -> None:
    world = ClassicWorld()
    described = world.machine.classic.describe("nobody", 5)
    assert (described.error_code, described.group_state) == (0, "Dead")
    described = world.machine.classic.describe("nobody", 6)
    assert (described.error_code, described.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert described.error_message == "Group nobody not found."


@pytest.mark.parametrize(
    ("member", "generation", "code"),
    [
        (True, 1, None),
        (True, 0, ErrorCode.ILLEGAL_GENERATION),
        (False, 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (False, -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_members_of_the_current_generation_may_commit(
    member: bool, generation: int, code: ErrorCode | None
) -> None:
    world = ClassicWorld()
    leader = world.stable(1)[0]
    name = leader if member else ("stranger" if generation >= 0 else "")
    if code is None:
        world.group.validate_offset_commit(name, None, generation, transactional=False, api_version=9)
        return
    with pytest.raises(KafkaError) as caught:
        world.group.validate_offset_commit(name, None, generation, transactional=False, api_version=9)
    assert caught.value.code is code


def test_a_commit_during_completing_rebalance_must_wait_for_the_rebalance() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    world.joining(leader)
    world.group.validate_offset_commit(leader, None, 1, transactional=False, api_version=9)
    world.join(follower)
    with pytest.raises(KafkaError) as caught:
        world.group.validate_offset_commit(leader, None, 2, transactional=False, api_version=9)
    assert caught.value.code is ErrorCode.REBALANCE_IN_PROGRESS
    world.group.validate_offset_commit(leader, None, 2, transactional=True, api_version=3)
    world.group.validate_offset_commit("", None, -1, transactional=True, api_version=2)


def test_only_groups_without_members_are_deleted() -> None:
    world = ClassicWorld()
    leader = world.stable(1)[0]

    def delete() -> dict[str, ErrorCode]:
        results: dict[str, ErrorCode] = value_of(
            world.ask(lambda machine, context: machine.delete([GROUP, "nobody"], context))
        )
        return results

    assert delete() == {GROUP: ErrorCode.NON_EMPTY_GROUP, "nobody": ErrorCode.GROUP_ID_NOT_FOUND}
    world.leave((leader, None))
    assert delete() == {GROUP: ErrorCode.NONE, "nobody": ErrorCode.GROUP_ID_NOT_FOUND}
    assert world.store.entries[-1] == Entry(GroupMetadataKey(group=GROUP), None)
    assert GROUP not in world.machine.table
    world.reload()
    assert GROUP not in world.machine.table
    assert len(world.machine.timers) == 1


def test_cleanup_removes_an_empty_group_without_offsets() -> None:
    world = ClassicWorld({"offsets.retention.check.interval.ms": str(DAY_MS)})
    world.stable(1)
    world.pass_ms(SESSION_MS)
    assert world.state == "Empty"
    world.pass_ms(DAY_MS)
    assert GROUP not in world.machine.table
    world.reload()
    assert GROUP not in world.machine.table


def test_cleanup_keeps_a_live_group() -> None:
    world = ClassicWorld({"offsets.retention.check.interval.ms": "5000"})
    leader = world.stable(1)[0]
    for _ in range(10):
        world.pass_ms(SESSION_MS // 2)
        assert world.heartbeat(leader, 1) is ErrorCode.NONE


def test_a_simple_group_exists_as_long_as_its_offsets() -> None:
    world = ClassicWorld(
        {"offsets.retention.check.interval.ms": str(DAY_MS), "offsets.retention.minutes": "4320"}
    )
    value = OffsetCommitValue(offset=1, leader_epoch=-1, metadata="", commit_timestamp=NOW_MS)
    entry = Entry(OffsetCommitKey(group="simple", topic="t", partition=0), value, 3)
    world.store.append([entry], None, 0, None, atomic=True)
    world.reload()
    group = world.machine.table.find("simple")
    assert (group.state_name, group.protocol_type, group.kind) == ("Empty", "", "classic")
    world.pass_ms(2 * DAY_MS)
    assert "simple" in world.machine.table
    world.pass_ms(2 * DAY_MS)
    assert "simple" not in world.machine.table
    assert not world.machine.offsets.has_offsets("simple")


def test_sessions_of_loaded_groups_count_whatever_other_groups_there_are() -> None:
    """An empty group is loaded before the one with a member."""
    world = ClassicWorld()
    value = OffsetCommitValue(offset=1, leader_epoch=-1, metadata="", commit_timestamp=NOW_MS)
    entry = Entry(OffsetCommitKey(group="simple", topic="t", partition=0), value, 3)
    world.store.append([entry], None, 0, None, atomic=True)
    world.reload()
    world.stable(1)
    world.reload()
    assert [group.group_id for group in world.machine.table] == ["simple", GROUP]
    world.pass_ms(SESSION_MS)
    assert world.state == "Empty"
