from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.offsets import commit as offsets_commit
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.records.group import GroupMetadataValue
from tests.coordinator.group.worlds.classic_world import (
    GROUP,
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicWorld,
)
from tests.coordinator.group.worlds.consumer_world import ConsumerWorld, assignment_bytes
from tests.coordinator.shard_world import COMMIT_TIMEOUT_MS, PENDING, value_of


def joined(world: ClassicWorld, count: int, **more: Any) -> list[str]:
    """Members of generation 1 without waiting requests; the leader comes first."""
    joins = [world.joining(version=3, **more) for _ in range(count)]
    world.pass_ms(2 * INITIAL_DELAY_MS)
    responses = [value_of(promise) for promise in joins]
    return sorted(
        (response.member_id for response in responses), key=lambda member_id: member_id != responses[0].leader
    )


@pytest.mark.trap
def test_followers_wait_for_the_leader_and_an_empty_assignment_is_legal() -> None:
    """Trap 7: SyncGroup: followers wait for the leader; an empty assignment is legal."""
    world = ClassicWorld()
    leader, full, empty, forgotten = joined(world, 4)
    waiting = {member_id: world.syncing(member_id, 1) for member_id in (full, empty, forgotten)}
    assert all(value_of(promise) is PENDING for promise in waiting.values())
    own = world.sync(leader, 1, {leader: b"0", full: b"1", empty: b""})
    assert own.assignment == b"0"
    responses = {promise: value_of(later) for promise, later in waiting.items()}
    assert [responses[promise].error_code for promise in waiting] == [0, 0, 0]
    assert [responses[member_id].assignment for member_id in (full, empty, forgotten)] == [b"1", b"", b""]
    assert (responses[full].protocol_type, responses[full].protocol_name) == ("consumer", "range")
    assert world.state == "Stable"
    assert world.sync(full, 1).assignment == b"1", "a late SyncGroup gets it immediately"


def test_the_leader_may_assign_nothing() -> None:
    world = ClassicWorld()
    leader = joined(world, 1)[0]
    assert world.sync(leader, 1, {}).assignment == b""
    assert world.state == "Stable"


def test_the_assignment_is_returned_once_it_is_committed() -> None:
    world = ClassicWorld()
    leader, follower = joined(world, 2)
    world.store.held_at = world.store.end
    waiting = world.syncing(follower, 1)
    own = world.syncing(leader, 1, {leader: b"0", follower: b"1"})
    assert (value_of(own), value_of(waiting)) == (PENDING, PENDING)
    assert world.state == "CompletingRebalance"
    world.store.held_at = None
    world.shard.look_at_commits()
    assert value_of(own).assignment == b"0"
    assert value_of(waiting).assignment == b"1"
    assert world.state == "Stable"
    written = world.store.entries[-1].value
    assert isinstance(written, GroupMetadataValue)
    assert {member.member_id: member.assignment for member in written.members} == {
        leader: b"0",
        follower: b"1",
    }


@pytest.mark.parametrize("is_slow", [False, True])
def test_an_assignment_that_cannot_be_written_fails_all_syncs_and_rebalances(is_slow: bool) -> None:
    world = ClassicWorld()
    leader, follower = joined(world, 2)
    waiting = world.syncing(follower, 1)
    if is_slow:
        world.store.held_at = world.store.end
        own = world.syncing(leader, 1, {})
        world.shard.expire(world.now_ms + COMMIT_TIMEOUT_MS)
        world.store.held_at = None
    else:
        world.store.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        own = world.syncing(leader, 1, {})
        world.store.refusal = None
    assert value_of(own).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert value_of(waiting).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.state == "PreparingRebalance"
    joins = [world.joining(leader), world.joining(follower)]
    assert [value_of(promise).generation_id for promise in joins] == [2, 2]


def test_an_assignment_committed_after_the_next_rebalance_started_is_ignored() -> None:
    world = ClassicWorld()
    leader, follower = joined(world, 2)
    world.store.held_at = world.store.end
    world.syncing(leader, 1, {follower: b"1"})
    world.joining(version=3)
    assert world.state == "PreparingRebalance"
    world.store.held_at = None
    world.shard.look_at_commits()
    assert world.state == "PreparingRebalance"
    assert world.group.members[follower].assignment == b""


def test_an_assignment_committed_in_the_next_generation_is_ignored() -> None:
    world = ClassicWorld()
    leader, follower = joined(world, 2)
    world.store.held_at = world.store.end
    world.syncing(leader, 1, {follower: b"1"})
    third = world.joining(version=3)
    joins = [world.joining(leader), world.joining(follower)]
    assert (world.state, world.group.generation) == ("CompletingRebalance", 2)
    world.store.held_at = None
    world.shard.look_at_commits()
    assert [value_of(member_id).generation_id for member_id in (third, *joins)] == [2, 2, 2]
    assert world.state == "CompletingRebalance", "the assignment belonged to another generation"
    assert world.group.members[follower].assignment == b""


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol": "roundrobin"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_invalid_sync_requests_are_rejected(change: dict[str, object], code: ErrorCode) -> None:
    world = ClassicWorld()
    leader = joined(world, 1)[0]
    fields = {"member_id": leader, "generation": 1, **change}
    assert world.sync(**fields).code is code  # type: ignore[arg-type]
    assert world.state == "CompletingRebalance"
    assert world.sync(leader, 1, protocol=None, protocol_type=None).error_code == 0


def test_sync_fails_for_a_missing_or_empty_group() -> None:
    world = ClassicWorld()
    assert world.sync("somebody", 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    world.new_id()
    assert world.sync("somebody", 1).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_do_not_sync_in_time_are_removed() -> None:
    world = ClassicWorld()
    leader, follower = joined(world, 2, session_ms=10 * REBALANCE_MS)
    world.sync(leader, 1, {follower: b"1"})
    assert world.state == "Stable"
    world.pass_ms(REBALANCE_MS)
    assert world.state == "PreparingRebalance"
    assert set(world.group.members) == {leader}
    assert world.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_must_rejoin_if_the_leader_does_not_sync() -> None:
    world = ClassicWorld()
    leader, follower = joined(world, 2, session_ms=10 * REBALANCE_MS)
    waiting = world.syncing(follower, 1)
    world.pass_ms(REBALANCE_MS)
    assert value_of(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.join(follower).leader == follower
    assert leader not in world.group.members


# Heartbeats


def test_a_heartbeat_renews_the_session() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    for _ in range(5):
        world.pass_ms(SESSION_MS - 1)
        assert world.heartbeat(leader, 1) is ErrorCode.NONE
        world.heartbeat(follower, 1)
    world.pass_ms(SESSION_MS - 1)
    world.heartbeat(leader, 1)
    world.pass_ms(1)
    assert set(world.group.members) == {leader}
    assert world.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert EventKind.MEMBER_EXPIRED in world.events()


def commit(world: ClassicWorld, member_id: str, generation: int = 1) -> None:
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[
            OffsetCommitRequest.Topic(
                name="t",
                partitions=[
                    OffsetCommitRequest.Partition(
                        partition_index=0, committed_offset=1, committed_metadata=""
                    )
                ],
            )
        ],
    )
    response = world.ask(lambda machine, context: offsets_commit.commit(machine.offsets, request, 9, context))
    assert isinstance(value_of(response), OffsetCommitResponse | KafkaError)


def test_a_commit_renews_the_session() -> None:
    world = ClassicWorld()
    leader = world.stable(1)[0]
    world.pass_ms(SESSION_MS - 1)
    commit(world, leader)
    world.pass_ms(SESSION_MS - 1)
    assert world.group.has_member(leader)
    commit(world, leader, generation=2)
    world.pass_ms(1)
    assert not world.group.has_member(leader), "a rejected commit does not renew the session"


def test_a_waiting_member_needs_no_heartbeats() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    joining = world.joining(leader)
    for _ in range(4):
        world.pass_ms(SESSION_MS // 2)
        world.heartbeat(follower, 1)
    assert value_of(joining) is PENDING
    assert world.group.has_member(leader)


def test_a_heartbeat_checks_member_and_generation() -> None:
    world = ClassicWorld()
    assert world.heartbeat("somebody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    member_id = world.new_id()
    assert world.heartbeat(member_id, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    leader = world.stable(1)[0]
    assert world.heartbeat(leader, 0) is ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat(leader, 2) is ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(leader, 1, "stranger") is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(leader, 1) is ErrorCode.NONE


def test_a_group_whose_last_member_expired_is_empty_in_the_log() -> None:
    world = ClassicWorld()
    world.stable(1)
    world.pass_ms(SESSION_MS)
    assert world.state == "Empty"
    assert world.group.generation == 2
    written = world.store.entries[-1].value
    assert isinstance(written, GroupMetadataValue)
    assert (written.generation, written.members, written.protocol, written.leader) == (2, [], None, None)
    assert written.protocol_type == "consumer"


# Leaving


def test_the_others_rebalance_immediately_when_a_member_leaves() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    assert world.leave((follower, None)) == [ErrorCode.NONE]
    assert world.state == "PreparingRebalance"
    assert world.join(leader).generation_id == 2
    left = next(event for event in world.machine.events.of(GROUP) if event.kind is EventKind.MEMBER_LEFT)
    assert (left.who, left.reason) == (follower, "over")


def test_each_leaving_member_has_its_own_result() -> None:
    world = ClassicWorld()
    members = world.stable(3)
    pending = world.new_id()
    codes = world.leave(
        (members[0], None),
        ("stranger", None),
        ("", None),
        ("", "stranger"),
        (pending, None),
        (members[1], "x"),
    )
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert set(world.group.members) == set(members[1:])
    assert not world.group.pending_joins


def test_a_group_is_empty_after_all_members_left() -> None:
    world = ClassicWorld()
    members = world.stable(3)
    assert world.leave(*((member, None) for member in members)) == [ErrorCode.NONE] * 3
    assert world.state == "Empty"
    assert world.events()[-1] is EventKind.GROUP_EMPTY


def test_leaving_a_missing_group_fails() -> None:
    world = ClassicWorld()
    assert world.leave(("somebody", None), ("", "static")) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


def test_a_waiting_member_that_leaves_gets_an_error() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    joining = world.joining(leader)
    assert world.leave((leader, None)) == [ErrorCode.NONE]
    assert value_of(joining).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join(follower).generation_id == 2


def test_the_rebalance_continues_when_the_awaited_member_leaves() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    joining = world.joining(leader)
    world.leave((follower, None))
    assert value_of(joining).generation_id == 2


def test_more_members_than_partitions_get_empty_assignments() -> None:
    """M-G2: more members than partitions."""
    world = ClassicWorld()
    members = world.stable(5)
    joins = [world.joining(member) for member in members]
    assert {value_of(promise).generation_id for promise in joins} == {2}
    waiting = [world.syncing(member, 2) for member in members[1:]]
    world.sync(members[0], 2, {members[0]: b"all of it"})
    assert [value_of(promise).assignment for promise in waiting] == [b""] * 4
    assert world.state == "Stable"


def test_a_member_that_waits_for_its_assignment_outlives_its_session() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    joining = world.joining(leader)
    world.join(follower)
    assert value_of(joining).generation_id == 2
    waiting = world.syncing(follower, 2)
    for _ in range(4):
        world.pass_ms(SESSION_MS // 2)
        assert world.heartbeat(leader, 2) is ErrorCode.NONE
    world.sync(leader, 2, {follower: b"all"})
    assert value_of(waiting).assignment == b"all"
    world.pass_ms(SESSION_MS)
    assert world.group.is_empty, "now heartbeats are expected again"


def test_a_group_may_be_converted_while_its_assignment_is_written() -> None:
    world = ConsumerWorld({"group.initial.rebalance.delay.ms": "0"})
    member = world.new_id()
    joining = world.joining(member, protocols=[("range", world.subscription("t"))])
    world.pass_ms(1)
    assert value_of(joining).generation_id == 1
    world.store.held_at = world.store.end
    syncing = world.syncing(member, 1, {member: assignment_bytes({"t": [0]})})
    assert value_of(syncing) is PENDING
    world.beat("new", 0)
    world.store.held_at = None
    world.shard.look_at_commits()
    assert set(world.consumers.members) == {member, "new"}
    assert value_of(syncing).error_code == ErrorCode.REBALANCE_IN_PROGRESS
