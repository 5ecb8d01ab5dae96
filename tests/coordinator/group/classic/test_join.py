from __future__ import annotations

import re

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.java_order import hash_map_order
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.classic.join import NEW_MEMBER_JOIN_TIMEOUT_MS
from barnabas.coordinator.group.classic.records import new_group_entry
from tests.coordinator.group.worlds.classic_world import (
    GROUP,
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    TOPIC,
    ClassicWorld,
    subscription,
)
from tests.coordinator.shard_world import COMMIT_TIMEOUT_MS, PENDING, value_of


@pytest.mark.trap
def test_a_new_member_gets_its_id_and_joins_with_it() -> None:
    """Trap 8: Second member must not get UNKNOWN_MEMBER_ID; MEMBER_ID_REQUIRED round trip."""
    world = ClassicWorld()
    ids = [world.new_id() for _ in range(2)]
    assert ids[0] != ids[1]
    assert re.fullmatch(r"client-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", ids[0])
    joins = [world.joining(member_id) for member_id in ids]
    world.pass_ms(2 * INITIAL_DELAY_MS)
    responses = [value_of(promise) for promise in joins]
    assert [response.error_code for response in responses] == [0, 0]
    assert [response.generation_id for response in responses] == [1, 1]
    assert {response.leader for response in responses} == {ids[0]}
    assert [len(response.members) for response in responses] == [2, 0], (
        "only the leader's response lists the members"
    )
    assert world.state == "CompletingRebalance"


def test_clients_of_old_versions_join_without_an_id() -> None:
    world = ClassicWorld()
    joining = world.joining(version=3)
    world.pass_ms(INITIAL_DELAY_MS)
    response = value_of(joining)
    assert response.error_code == 0
    assert response.member_id == response.leader


def test_a_new_group_is_committed_before_the_response() -> None:
    world = ClassicWorld()
    world.store.held_at = 0
    joining = world.joining()
    assert value_of(joining) is PENDING
    assert world.store.entries == [new_group_entry(world.group)]
    world.store.held_at = 1
    world.shard.look_at_commits()
    assert value_of(joining).error_code == ErrorCode.MEMBER_ID_REQUIRED
    world.new_id()
    assert len(world.store.entries) == 1, "only the first one creates the group"


def test_a_group_that_could_not_be_written_does_not_exist() -> None:
    world = ClassicWorld()
    world.store.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert world.join().code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert GROUP not in world.machine.table
    assert len(world.machine.timers) == 1, "only the cleanup timer is left"


def test_a_group_remains_after_a_replication_timeout() -> None:
    """Other members may have joined in the meantime: an error for one request must not affect them."""
    world = ClassicWorld()
    world.store.held_at = 0
    first, second = world.joining(version=3), world.joining(version=3)
    world.shard.expire(world.now_ms + COMMIT_TIMEOUT_MS)
    assert value_of(first).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert value_of(second).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.store.held_at = None
    third = world.joining(version=3)
    world.pass_ms(2 * INITIAL_DELAY_MS)
    assert value_of(third).generation_id == 1


def test_a_duplicate_protocol_counts_once() -> None:
    """F12: it was counted twice, so that no protocol was common to all members and none could join."""
    world = ClassicWorld()
    twice = [("range", TOPIC), ("range", subscription("u")), ("roundrobin", TOPIC)]
    member_id = world.stable(1, protocols=twice)[0]
    assert world.group.protocol == "range"
    assert world.group.subscribed_topics == {"t"}, "the first of a duplicate name counts"
    rejoined = world.joining(member_id, protocols=twice)
    assert value_of(rejoined).error_code == 0
    other = world.joining(world.new_id(protocols=[("roundrobin", TOPIC)]), protocols=[("roundrobin", TOPIC)])
    assert value_of(world.joining(member_id, protocols=twice)).protocol_name == "roundrobin"
    assert value_of(other).error_code == 0
    world.leave((member_id, None))
    assert world.join(protocols=[("range", TOPIC)]).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(("first", "second"), [("range", "roundrobin"), ("roundrobin", "range")])
def test_the_common_protocol_with_most_votes_wins(first: str, second: str) -> None:
    world = ClassicWorld()
    one, other = [(first, TOPIC), (second, TOPIC)], [(second, TOPIC), (first, TOPIC)]
    joins = [world.joining(version=3, protocols=protocols) for protocols in (one, other, other)]
    world.pass_ms(2 * INITIAL_DELAY_MS)
    assert {value_of(join).protocol_name for join in joins} == {second}


def test_the_next_leader_is_the_first_in_java_map_order() -> None:
    """Apache Kafka takes the first of its map; two coordinators of the same log must choose the same one."""
    world = ClassicWorld()
    joins = [world.joining(version=3) for _ in range(6)]
    world.pass_ms(2 * INITIAL_DELAY_MS)
    leader = value_of(joins[0]).leader
    left = [response.member_id for response in map(value_of, joins) if response.member_id != leader]
    assert hash_map_order(left) != left, "these ids distinguish the two orders"
    world.leave((leader, None))
    assert world.group.leader_id == hash_map_order(left)[0]


def test_an_unassigned_member_id_is_unknown() -> None:
    world = ClassicWorld()
    assert world.join("made-up").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert GROUP not in world.machine.table
    world.new_id()
    response = world.join("made-up")
    assert (response.error_code, response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "made-up")


def test_a_rebalance_waits_for_pending_members() -> None:
    world = ClassicWorld()
    leader = world.stable(1)[0]
    new = world.new_id()
    joining = world.joining(leader)
    assert value_of(joining) is PENDING
    assert world.join(new).generation_id == 2
    assert len(value_of(joining).members) == 2


def test_a_pending_member_id_expires() -> None:
    world = ClassicWorld()
    member_id = world.new_id()
    world.pass_ms(SESSION_MS)
    assert world.join(member_id).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_initial_rebalance_delay_is_extended_but_bounded() -> None:
    world = ClassicWorld()
    joins = [world.joining(version=3, rebalance_ms=8_000)]
    for _ in range(10):  # one joins every second
        world.pass_ms(1_000)
        joins.append(world.joining(version=3, rebalance_ms=8_000))
        if value_of(joins[0]) is not PENDING:
            break
    assert world.now_ms == 8_000
    in_time = [promise for promise in joins if value_of(promise) is not PENDING]
    assert len(in_time) == 8


def test_the_initial_rebalance_delay_may_be_zero() -> None:
    world = ClassicWorld({"group.initial.rebalance.delay.ms": "0"})
    joining = world.joining(version=3)
    world.pass_ms(0)
    assert value_of(joining).error_code == 0


def test_members_must_share_a_protocol() -> None:
    world = ClassicWorld()
    member_id = world.stable(1)[0]
    assert world.join(protocols=[("roundrobin", TOPIC)]).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    changed = world.join(member_id, protocols=[("roundrobin", TOPIC)])
    assert (changed.error_code, changed.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    assert world.state == "Stable"


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", [("range", TOPIC)]), ("consumer", [])])
def test_the_first_member_must_have_a_type_and_protocols(
    protocol_type: str, protocols: list[tuple[str, bytes]]
) -> None:
    world = ClassicWorld()
    response = world.join(protocol_type=protocol_type, protocols=protocols)
    assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_is_elected_among_those_that_all_members_support() -> None:
    world = ClassicWorld()
    wishes = (["a", "b", "c"], ["b", "c"], ["c", "b"])
    joins = [world.joining(version=3, protocols=[(name, b"") for name in wish]) for wish in wishes]
    world.pass_ms(2 * INITIAL_DELAY_MS)
    assert {value_of(promise).protocol_name for promise in joins} == {"b"}


def test_a_group_has_a_maximum_size() -> None:
    world = ClassicWorld({"group.max.size": "2"})
    members = world.stable(2)
    response = world.join()
    assert (response.error_code, response.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert world.join(members[1]).error_code == 0, "existing members stay"
    rebalancing = world.joining(members[0])
    assert value_of(rebalancing) is PENDING
    assert world.join(version=3) is PENDING, "one more may join before the second"
    assert world.join(members[1]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_follower_that_rejoins_unchanged_gets_the_current_generation() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    response = world.join(follower)
    assert (response.error_code, response.generation_id, response.leader) == (0, 1, leader)
    assert response.members == []
    assert world.state == "Stable"


def test_a_leader_that_rejoins_starts_a_rebalance() -> None:
    """M-G2: partitions were added to a subscribed topic; the leader noticed."""
    world = ClassicWorld()
    leader, follower = world.stable(2)
    joining = world.joining(leader, reason="new partitions")
    assert world.state == "PreparingRebalance"
    assert world.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.join(follower).generation_id == 2
    assert value_of(joining).generation_id == 2


def test_a_follower_with_a_new_subscription_starts_a_rebalance() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    joining = world.joining(follower, protocols=[("range", subscription("t", "u"))])
    assert value_of(joining) is PENDING
    response = world.join(leader)
    assert value_of(joining).generation_id == 2
    protocols = {member.member_id: bytes(member.metadata) for member in response.members}
    assert protocols == {leader: TOPIC, follower: subscription("t", "u")}
    assert world.group.subscribed_topics == frozenset({"t", "u"})


def test_a_join_can_be_retried_during_completing_rebalance() -> None:
    world = ClassicWorld()
    joining = world.joining(version=3)
    world.pass_ms(INITIAL_DELAY_MS)
    first = value_of(joining)
    rejoined = world.join(first.member_id)
    assert (rejoined.generation_id, len(rejoined.members)) == (1, 1)
    changed = world.joining(first.member_id, protocols=[("range", subscription("u"))])
    assert value_of(changed).generation_id == 2


def test_a_member_that_joins_during_the_assignment_restarts_the_rebalance() -> None:
    world = ClassicWorld()
    first = world.joining(version=3)
    second = world.joining(version=3)
    world.pass_ms(2 * INITIAL_DELAY_MS)
    waiting = world.syncing(value_of(second).member_id, 1)
    world.joining(version=3)
    refused = value_of(waiting)
    assert refused.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    late = world.sync(value_of(first).member_id, 1, {})
    assert late.code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_new_member_that_waits_too_long_must_rejoin() -> None:
    world = ClassicWorld()
    leader = world.stable(1, rebalance_ms=2 * NEW_MEMBER_JOIN_TIMEOUT_MS)[0]
    joining = world.joining(version=3)
    while world.now_ms < NEW_MEMBER_JOIN_TIMEOUT_MS:
        assert world.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        world.pass_ms(SESSION_MS // 2)
    assert value_of(joining) is PENDING
    for _ in range(3):
        world.heartbeat(leader, 1)
        world.pass_ms(SESSION_MS // 2)
    response = value_of(joining)
    assert (response.error_code, response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


def test_members_that_do_not_join_in_time_are_removed() -> None:
    world = ClassicWorld()
    leader, follower, absent = world.stable(3, session_ms=5 * REBALANCE_MS)
    joins = [world.joining(leader), world.joining(follower)]
    world.pass_ms(REBALANCE_MS)
    assert [value_of(promise).generation_id for promise in joins] == [2, 2]
    assert set(world.group.members) == {leader, follower}
    assert world.heartbeat(absent, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_another_leader_is_elected_if_the_leader_does_not_join() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2, session_ms=5 * REBALANCE_MS)
    joining = world.joining(follower, protocols=[("range", subscription("u"))])
    world.pass_ms(REBALANCE_MS)
    response = value_of(joining)
    assert (response.leader, len(response.members)) == (follower, 1)
    assert leader not in world.group.members


def test_joining_is_recorded_as_events() -> None:
    world = ClassicWorld()
    world.stable(1, reason="first start")
    assert world.events() == [
        EventKind.MEMBER_JOINED,
        EventKind.REBALANCE_STARTED,
        EventKind.GENERATION,
        EventKind.ASSIGNMENT,
    ]
    assert world.machine.events.of(GROUP)[0].reason == "first start"


@pytest.mark.parametrize("leaves", [True, False])
def test_an_assigned_id_that_is_never_used_leaves_no_trace_in_an_empty_group(leaves: bool) -> None:
    world = ClassicWorld()
    pending = world.new_id()
    if leaves:
        world.leave((pending, None))
    else:
        world.pass_ms(SESSION_MS)
    assert (world.state, world.group.generation) == ("Empty", 0)
    assert world.events() == []
    assert world.join(pending).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_generation_is_one_also_after_a_failover() -> None:
    world = ClassicWorld()
    world.joining(instance_id="one")
    assert len(world.store.entries) == 1, "the new group is in the log"
    world.reload()
    assert (world.state, world.group.generation) == ("Empty", 0)
    joining = world.joining(instance_id="one")
    world.pass_ms(INITIAL_DELAY_MS)
    assert value_of(joining).generation_id == 1
