"""Static members (KIP-345): they keep their place while they are away, and their later self replaces them."""

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
)
from tests.coordinator.shard_world import COMMIT_TIMEOUT_MS, PENDING, value_of


def named(world: ClassicWorld) -> dict[str, str]:
    return dict(world.group.static_members)


def test_a_static_member_needs_no_id_to_join() -> None:
    world = ClassicWorld()
    joining = world.joining(instance_id="one")
    world.pass_ms(INITIAL_DELAY_MS)
    answer = value_of(joining)
    assert answer.error_code == 0
    assert answer.member_id.startswith("one-")
    assert answer.members[0].group_instance_id == "one"


def test_a_follower_that_comes_back_gets_its_assignment_without_a_rebalance() -> None:
    world = ClassicWorld()
    members = world.stable(2, instances=["one", "two"])
    follower = members[1]
    name = next(name for name, member_id in named(world).items() if member_id == follower)
    entries = len(world.store.entries)
    answer = world.join(instance_id=name)
    assert answer.error_code == 0
    assert answer.member_id != follower
    assert (answer.generation_id, answer.leader, answer.members) == (1, members[0], [])
    assert world.sync(answer.member_id, 1, instance_id=name).assignment == follower.encode()
    assert world.state == "Stable"
    assert len(world.store.entries) == entries + 1, "the log knows the new id"
    written = world.store.entries[-1].value
    assert isinstance(written, GroupMetadataValue)
    assert {one.member_id for one in written.members} == {members[0], answer.member_id}


def test_a_leader_that_comes_back_leads_but_has_nothing_to_assign() -> None:
    world = ClassicWorld()
    leader = world.stable(1, instances=["one"])[0]
    answer = world.join(instance_id="one")
    assert answer.leader == answer.member_id != leader
    assert answer.skip_assignment
    assert len(answer.members) == 1


def test_a_leader_of_an_older_client_that_comes_back_does_not_know_that_it_leads() -> None:
    world = ClassicWorld()
    leader = world.stable(1, instances=["one"])[0]
    answer = world.join(instance_id="one", version=8)
    assert answer.leader == leader != answer.member_id
    assert (answer.skip_assignment, answer.members) == (False, [])


def test_the_earlier_self_is_fenced_in_everything() -> None:
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


def test_an_earlier_self_that_waits_is_fenced_at_once() -> None:
    world = ClassicWorld()
    first = world.joining(instance_id="one")
    second = world.joining(instance_id="one")
    assert value_of(first).error_code == ErrorCode.FENCED_INSTANCE_ID
    world.pass_ms(2 * INITIAL_DELAY_MS)
    assert value_of(second).error_code == 0
    assert len(world.group.members) == 1


def test_who_comes_back_while_the_assignment_is_made_starts_a_rebalance() -> None:
    world = ClassicWorld()
    joining = world.joining(instance_id="one")
    world.pass_ms(INITIAL_DELAY_MS)
    old = value_of(joining).member_id
    answer = world.join(instance_id="one")
    assert (answer.generation_id, answer.error_code) == (2, 0)
    assert answer.member_id != old


def test_who_comes_back_with_another_protocol_starts_a_rebalance() -> None:
    world = ClassicWorld()
    both = [("range", TOPIC), ("roundrobin", TOPIC)]
    world.stable(1, instances=["one"], protocols=both)
    answer = world.join(instance_id="one", protocols=[both[1]])
    assert (answer.generation_id, answer.protocol_name) == (2, "roundrobin")


def test_a_new_id_that_could_not_be_written_is_taken_back() -> None:
    world = ClassicWorld()
    old = world.stable(1, instances=["one"])[0]
    world.store.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert world.join(instance_id="one").code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert named(world) == {"one": old}
    assert world.heartbeat(old, 1, "one") is ErrorCode.NONE
    assert world.sync(old, 1, instance_id="one").assignment == old.encode()


def test_a_new_id_whose_replicas_are_slow_is_in_the_log_and_stays() -> None:
    """The log knows it, so a shard that is loaded would too; its session counts though nobody hears of it."""
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
    answer = world.join(instance_id="one")
    assert (answer.error_code, answer.generation_id) == (0, 1), "its client joins again, without a rebalance"
    assert world.sync(answer.member_id, 1, instance_id="one").assignment == old.encode()
    world.store.held_at = world.store.end
    world.joining(instance_id="one")
    world.shard.expire(world.now_ms + COMMIT_TIMEOUT_MS)
    world.store.held_at = None
    world.pass_ms(COMMIT_TIMEOUT_MS + SESSION_MS)
    assert world.group.is_empty, "a client that does not come again is missed"


def test_a_request_of_an_earlier_self_that_waits_is_fenced() -> None:
    world = ClassicWorld()
    joins = [world.joining(instance_id=one) for one in ("one", "two")]
    world.pass_ms(2 * INITIAL_DELAY_MS)
    leader = value_of(joins[0]).leader
    name, follower = next(item for item in named(world).items() if item[1] != leader)
    syncing = world.syncing(follower, 1, instance_id=name)
    again = world.joining(instance_id=name)
    assert value_of(syncing).error_code == ErrorCode.FENCED_INSTANCE_ID
    world.joining(instance_id=name)
    assert value_of(again).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_keeps_its_place_through_a_rebalance_until_its_session_ends() -> None:
    world = ClassicWorld()
    members = world.stable(2, instances=["one", "two"], session_ms=5 * REBALANCE_MS)
    joining = world.joining(members[0], session_ms=5 * REBALANCE_MS)
    world.pass_ms(REBALANCE_MS)
    answer = value_of(joining)
    assert (answer.generation_id, len(answer.members)) == (2, 2), "the one that is away is in it too"
    world.sync(members[0], 2, {})
    world.pass_ms(REBALANCE_MS)
    assert set(world.group.members) == {members[0]}, "but it must ask for its assignment"


def test_a_group_whose_static_members_are_all_away_goes_on_waiting() -> None:
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


def test_an_administrator_removes_a_static_member_by_its_name() -> None:
    world = ClassicWorld()
    members = world.stable(2, instances=["one", "two"])
    name = next(name for name, member_id in named(world).items() if member_id == members[1])
    assert world.leave(("", name)) == [ErrorCode.NONE]
    assert set(world.group.members) == {members[0]}


def test_a_static_member_that_stays_away_expires() -> None:
    world = ClassicWorld()
    world.stable(1, instances=["one"])
    world.pass_ms(SESSION_MS)
    assert world.state == "Empty"
    assert world.join("whoever", instance_id="one").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join(instance_id="one") is PENDING
