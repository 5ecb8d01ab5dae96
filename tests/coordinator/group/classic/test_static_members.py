"""Static members (KIP-345): they keep their assignment while absent, and a new instance replaces them."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.protocol.records.group import GroupMetadataValue
from tests.coordinator.group.worlds.classic_world import (
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    TOPIC,
    ClassicWorld,
    subscription,
)
from tests.coordinator.shard_world import COMMIT_TIMEOUT_MS, PENDING, value_of


def named(world: ClassicWorld) -> dict[str, str]:
    return dict(world.group.static_members)


def test_a_static_member_needs_no_id_to_join() -> None:
    world = ClassicWorld()
    joining = world.joining(instance_id="one")
    world.pass_ms(INITIAL_DELAY_MS)
    response = value_of(joining)
    assert response.error_code == 0
    assert response.member_id.startswith("one-")
    assert response.members[0].group_instance_id == "one"


def test_a_follower_that_rejoins_gets_its_assignment_without_a_rebalance() -> None:
    world = ClassicWorld()
    members = world.stable(2, instances=["one", "two"])
    follower = members[1]
    name = next(name for name, member_id in named(world).items() if member_id == follower)
    entries = len(world.store.entries)
    response = world.join(instance_id=name)
    assert response.error_code == 0
    assert response.member_id != follower
    assert (response.generation_id, response.leader, response.members) == (1, members[0], [])
    assert world.sync(response.member_id, 1, instance_id=name).assignment == follower.encode()
    assert world.state == "Stable"
    assert len(world.store.entries) == entries + 1, "the new id is in the log"
    written = world.store.entries[-1].value
    assert isinstance(written, GroupMetadataValue)
    assert {member.member_id for member in written.members} == {members[0], response.member_id}


def test_a_leader_that_rejoins_skips_the_assignment() -> None:
    world = ClassicWorld()
    leader = world.stable(1, instances=["one"])[0]
    response = world.join(instance_id="one")
    assert response.leader == response.member_id != leader
    assert response.skip_assignment
    assert len(response.members) == 1


def test_an_older_leader_that_rejoins_gets_the_previous_leader_id() -> None:
    world = ClassicWorld()
    leader = world.stable(1, instances=["one"])[0]
    response = world.join(instance_id="one", version=8)
    assert response.leader == leader != response.member_id
    assert (response.skip_assignment, response.members) == (False, [])


def test_all_requests_of_the_replaced_member_are_fenced() -> None:
    world = ClassicWorld()
    old = world.stable(1, instances=["one"])[0]
    new = world.join(instance_id="one").member_id
    assert world.heartbeat(old, 1, "one") is ErrorCode.FENCED_INSTANCE_ID
    assert world.sync(old, 1, instance_id="one").code is ErrorCode.FENCED_INSTANCE_ID
    assert world.join(old, instance_id="one").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.leave((old, "one")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert world.heartbeat(old, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(new, 1, "one") is ErrorCode.NONE
    with pytest.raises(KafkaError) as caught:
        world.group.validate_offset_commit(old, "one", 1, transactional=False, api_version=9)
    assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_a_waiting_request_of_the_replaced_member_is_fenced_immediately() -> None:
    world = ClassicWorld()
    first = world.joining(instance_id="one")
    second = world.joining(instance_id="one")
    assert value_of(first).error_code == ErrorCode.FENCED_INSTANCE_ID
    world.pass_ms(2 * INITIAL_DELAY_MS)
    assert value_of(second).error_code == 0
    assert len(world.group.members) == 1


def test_a_rejoin_during_completing_rebalance_starts_a_rebalance() -> None:
    world = ClassicWorld()
    joining = world.joining(instance_id="one")
    world.pass_ms(INITIAL_DELAY_MS)
    old = value_of(joining).member_id
    response = world.join(instance_id="one")
    assert (response.generation_id, response.error_code) == (2, 0)
    assert response.member_id != old


def test_a_rejoin_with_another_protocol_starts_a_rebalance() -> None:
    world = ClassicWorld()
    both = [("range", TOPIC), ("roundrobin", TOPIC)]
    world.stable(1, instances=["one"], protocols=both)
    response = world.join(instance_id="one", protocols=[both[1]])
    assert (response.generation_id, response.protocol_name) == (2, "roundrobin")


def test_a_new_id_that_could_not_be_written_is_reverted() -> None:
    world = ClassicWorld()
    old = world.stable(1, instances=["one"])[0]
    world.store.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert world.join(instance_id="one").code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert named(world) == {"one": old}
    assert world.heartbeat(old, 1, "one") is ErrorCode.NONE
    assert world.sync(old, 1, instance_id="one").assignment == old.encode()


def test_a_new_id_remains_after_a_replication_timeout() -> None:
    """The new id is in the log and would be loaded again; its session counts without a response."""
    world = ClassicWorld()
    old = world.stable(1, instances=["one"])[0]
    world.store.held_at = world.store.end
    joining = world.joining(instance_id="one")
    world.shard.expire(world.now_ms + COMMIT_TIMEOUT_MS)
    assert value_of(joining).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.store.held_at = None
    new = named(world)["one"]
    assert new != old
    assert world.heartbeat(old, 1, "one") is ErrorCode.FENCED_INSTANCE_ID
    response = world.join(instance_id="one")
    assert (response.error_code, response.generation_id) == (0, 1), "its client rejoins without a rebalance"
    assert world.sync(response.member_id, 1, instance_id="one").assignment == old.encode()
    world.store.held_at = world.store.end
    world.joining(instance_id="one")
    world.shard.expire(world.now_ms + COMMIT_TIMEOUT_MS)
    world.store.held_at = None
    world.pass_ms(COMMIT_TIMEOUT_MS + SESSION_MS)
    assert world.group.is_empty, "a client that does not rejoin expires"


def test_a_waiting_sync_of_the_replaced_member_is_fenced() -> None:
    world = ClassicWorld()
    joins = [world.joining(instance_id=instance_id) for instance_id in ("one", "two")]
    world.pass_ms(2 * INITIAL_DELAY_MS)
    leader = value_of(joins[0]).leader
    name, follower = next(item for item in named(world).items() if item[1] != leader)
    syncing = world.syncing(follower, 1, instance_id=name)
    rejoined = world.joining(instance_id=name)
    assert value_of(syncing).error_code == ErrorCode.FENCED_INSTANCE_ID
    world.joining(instance_id=name)
    assert value_of(rejoined).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_survives_a_rebalance_until_its_session_expires() -> None:
    world = ClassicWorld()
    members = world.stable(2, instances=["one", "two"], session_ms=5 * REBALANCE_MS)
    joining = world.joining(members[0], session_ms=5 * REBALANCE_MS)
    world.pass_ms(REBALANCE_MS)
    response = value_of(joining)
    assert (response.generation_id, len(response.members)) == (2, 2), "it includes the absent member"
    world.sync(members[0], 2, {})
    world.pass_ms(REBALANCE_MS)
    assert set(world.group.members) == {members[0]}, "but it must send SyncGroup"


def test_an_absent_static_leader_is_replaced_by_a_member_that_has_joined() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2, instances=["one", "two"], session_ms=5 * REBALANCE_MS)
    name = next(name for name, member_id in named(world).items() if member_id == follower)
    joining = world.joining(
        follower, instance_id=name, protocols=[("range", subscription("u"))], session_ms=5 * REBALANCE_MS
    )
    world.pass_ms(REBALANCE_MS)
    response = value_of(joining)
    assert (response.leader, response.member_id) == (follower, follower)
    assert {member.member_id for member in response.members} == {leader, follower}
    assert world.group.leader_id == follower


def test_a_rebalance_waits_while_all_static_members_are_absent() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2, instances=["one", "two"], session_ms=3 * REBALANCE_MS)
    pending = world.new_id()
    world.leave((follower, None))
    assert world.state == "PreparingRebalance"
    world.leave((pending, None))
    world.pass_ms(REBALANCE_MS)
    assert world.state == "PreparingRebalance"
    assert world.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.join(leader, instance_id=next(iter(named(world)))).generation_id == 2


def test_an_admin_removes_a_static_member_by_its_instance_id() -> None:
    world = ClassicWorld()
    members = world.stable(2, instances=["one", "two"])
    name = next(name for name, member_id in named(world).items() if member_id == members[1])
    assert world.leave(("", name)) == [ErrorCode.NONE]
    assert set(world.group.members) == {members[0]}


def test_an_absent_static_member_expires() -> None:
    world = ClassicWorld()
    world.stable(1, instances=["one"])
    world.pass_ms(SESSION_MS)
    assert world.state == "Empty"
    assert world.join("whoever", instance_id="one").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join(instance_id="one") is PENDING


def test_a_replacement_that_waits_for_a_rebalance_outlives_its_session() -> None:
    """It has joined: only the others are waited for."""
    world = ClassicWorld()
    both = [("range", TOPIC), ("roundrobin", TOPIC)]
    world.stable(2, instances=["one", "two"], protocols=both)
    other = named(world)["two"]
    joining = world.joining(instance_id="one", protocols=[both[1]])
    for _ in range(4):
        world.pass_ms(SESSION_MS // 2)
        assert world.heartbeat(other, 1, "two") is ErrorCode.REBALANCE_IN_PROGRESS
    world.joining(other, instance_id="two", protocols=both)
    response = value_of(joining)
    assert (response.error_code, response.generation_id) == (0, 2)
    assert set(world.group.members) == {response.member_id, other}


def test_a_replacement_of_a_waiting_member_counts_once() -> None:
    """The rebalance ends as soon as the last member joins."""
    world = ClassicWorld()
    leader, _ = world.stable(2, instances=["one", "two"])
    name = next(name for name, member_id in named(world).items() if member_id == leader)
    other_name, other = next(item for item in named(world).items() if item[0] != name)
    world.joining(leader, instance_id=name)
    replacing = world.joining(instance_id=name)
    assert world.state == "PreparingRebalance"
    assert value_of(world.joining(other, instance_id=other_name)).generation_id == 2
    assert value_of(replacing).generation_id == 2


def test_a_replacement_that_sends_nothing_expires() -> None:
    world = ClassicWorld()
    world.stable(1, instances=["one"])
    world.pass_ms(SESSION_MS // 2)
    assert world.join(instance_id="one").error_code == 0
    world.pass_ms(SESSION_MS - 1)
    assert world.state == "Stable"
    world.pass_ms(1)
    assert world.state == "Empty"
