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
def test_a_new_member_is_given_its_id_and_joins_with_it() -> None:
    """Trap 8: Second member must not get UNKNOWN_MEMBER_ID; MEMBER_ID_REQUIRED round trip."""
    world = ClassicWorld()
    ids = [world.new_id() for _ in range(2)]
    assert ids[0] != ids[1]
    assert re.fullmatch(r"client-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", ids[0])
    joins = [world.joining(member_id) for member_id in ids]
    world.pass_ms(2 * INITIAL_DELAY_MS)
    answers = [value_of(one) for one in joins]
    assert [one.error_code for one in answers] == [0, 0]
    assert [one.generation_id for one in answers] == [1, 1]
    assert {one.leader for one in answers} == {ids[0]}
    assert [len(one.members) for one in answers] == [2, 0], "the leader alone hears of all"
    assert world.state == "CompletingRebalance"


def test_clients_of_old_versions_join_without_an_id() -> None:
    world = ClassicWorld()
    joining = world.joining(version=3)
    world.pass_ms(INITIAL_DELAY_MS)
    answer = value_of(joining)
    assert answer.error_code == 0
    assert answer.member_id == answer.leader


def test_a_new_group_is_written_before_anybody_hears_of_it() -> None:
    world = ClassicWorld()
    world.store.held_at = 0
    joining = world.joining()
    assert value_of(joining) is PENDING
    assert world.store.entries == [new_group_entry(world.group)]
    world.store.held_at = 1
    world.shard.look_at_commits()
    assert value_of(joining).error_code == ErrorCode.MEMBER_ID_REQUIRED
    world.new_id()
    assert len(world.store.entries) == 1, "only the first makes the group"


def test_a_group_that_could_not_be_written_is_not_there() -> None:
    world = ClassicWorld()
    world.store.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert world.join().code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert GROUP not in world.machine.table
    assert len(world.machine.timers) == 1, "nothing is left but the clean-up"


def test_a_group_whose_replicas_are_slow_is_in_the_log_and_stays() -> None:
    """Others may have joined it meanwhile: what one caller is told takes nothing from them."""
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


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    """F12: it was counted twice, so that no protocol was known to all members and nobody got any further."""
    world = ClassicWorld()
    twice = [("range", TOPIC), ("range", subscription("u")), ("roundrobin", TOPIC)]
    member_id = world.stable(1, protocols=twice)[0]
    assert world.group.protocol == "range"
    assert world.group.subscribed_topics == {"t"}, "the first of a name is the one that counts"
    again = world.joining(member_id, protocols=twice)
    assert value_of(again).error_code == 0
    other = world.joining(world.new_id(protocols=[("roundrobin", TOPIC)]), protocols=[("roundrobin", TOPIC)])
    assert value_of(world.joining(member_id, protocols=twice)).protocol_name == "roundrobin"
    assert value_of(other).error_code == 0
    world.leave((member_id, None))
    assert world.join(protocols=[("range", TOPIC)]).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(("first", "second"), [("range", "roundrobin"), ("roundrobin", "range")])
def test_of_the_protocols_that_all_know_most_votes_win(first: str, second: str) -> None:
    world = ClassicWorld()
    one, other = [(first, TOPIC), (second, TOPIC)], [(second, TOPIC), (first, TOPIC)]
    joins = [world.joining(version=3, protocols=told) for told in (one, other, other)]
    world.pass_ms(2 * INITIAL_DELAY_MS)
    assert {value_of(join).protocol_name for join in joins} == {second}


def test_who_leads_after_the_leader_has_left_is_the_first_in_the_order_of_javas_maps() -> None:
    """Apache Kafka takes the first of its map; two coordinators of one log choose alike."""
    world = ClassicWorld()
    joins = [world.joining(version=3) for _ in range(6)]
    world.pass_ms(2 * INITIAL_DELAY_MS)
    leader = value_of(joins[0]).leader
    left = [one.member_id for one in map(value_of, joins) if one.member_id != leader]
    assert hash_map_order(left) != left, "these ids tell the two orders apart"
    world.leave((leader, None))
    assert world.group.leader_id == hash_map_order(left)[0]


def test_an_id_that_nobody_gave_out_is_unknown() -> None:
    world = ClassicWorld()
    assert world.join("made-up").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert GROUP not in world.machine.table
    world.new_id()
    answer = world.join("made-up")
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "made-up")


def test_a_rebalance_waits_for_those_who_were_given_an_id() -> None:
    world = ClassicWorld()
    leader = world.stable(1)[0]
    new = world.new_id()
    joining = world.joining(leader)
    assert value_of(joining) is PENDING
    assert world.join(new).generation_id == 2
    assert len(value_of(joining).members) == 2


def test_an_id_that_is_not_used_in_time_is_forgotten() -> None:
    world = ClassicWorld()
    member_id = world.new_id()
    world.pass_ms(SESSION_MS)
    assert world.join(member_id).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_rebalance_waits_for_more_members_but_not_for_ever() -> None:
    world = ClassicWorld()
    joins = [world.joining(version=3, rebalance_ms=8_000)]
    for _ in range(10):  # one comes in every second
        world.pass_ms(1_000)
        joins.append(world.joining(version=3, rebalance_ms=8_000))
        if value_of(joins[0]) is not PENDING:
            break
    assert world.now_ms == 8_000
    in_time = [one for one in joins if value_of(one) is not PENDING]
    assert len(in_time) == 8


def test_the_initial_delay_may_be_none() -> None:
    world = ClassicWorld({"group.initial.rebalance.delay.ms": "0"})
    joining = world.joining(version=3)
    world.pass_ms(0)
    assert value_of(joining).error_code == 0


def test_protocols_must_have_something_in_common() -> None:
    world = ClassicWorld()
    member_id = world.stable(1)[0]
    assert world.join(protocols=[("roundrobin", TOPIC)]).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    changed = world.join(member_id, protocols=[("roundrobin", TOPIC)])
    assert (changed.error_code, changed.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    assert world.state == "Stable"


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", [("range", TOPIC)]), ("consumer", [])])
def test_the_first_member_must_name_a_type_and_protocols(
    protocol_type: str, protocols: list[tuple[str, bytes]]
) -> None:
    world = ClassicWorld()
    answer = world.join(protocol_type=protocol_type, protocols=protocols)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_that_most_members_want_is_chosen_among_those_that_all_know() -> None:
    world = ClassicWorld()
    wishes = (["a", "b", "c"], ["b", "c"], ["c", "b"])
    joins = [world.joining(version=3, protocols=[(name, b"") for name in wish]) for wish in wishes]
    world.pass_ms(2 * INITIAL_DELAY_MS)
    assert {value_of(one).protocol_name for one in joins} == {"b"}


def test_a_group_takes_no_more_members_than_allowed() -> None:
    world = ClassicWorld({"group.max.size": "2"})
    members = world.stable(2)
    answer = world.join()
    assert (answer.error_code, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert world.join(members[1]).error_code == 0, "who is in stays in"
    rebalancing = world.joining(members[0])
    assert value_of(rebalancing) is PENDING
    assert world.join(version=3) is PENDING, "there is room for one who comes before the second"
    assert world.join(members[1]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_follower_that_repeats_itself_is_told_where_the_group_stands() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    answer = world.join(follower)
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, leader)
    assert answer.members == []
    assert world.state == "Stable"


def test_a_leader_that_joins_again_starts_a_rebalance() -> None:
    """M-G2: partitions were added to a subscribed topic; the leader saw it."""
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
    answer = world.join(leader)
    assert value_of(joining).generation_id == 2
    told = {one.member_id: bytes(one.metadata) for one in answer.members}
    assert told == {leader: TOPIC, follower: subscription("t", "u")}
    assert world.group.subscribed_topics == frozenset({"t", "u"})


def test_who_did_not_hear_the_answer_may_ask_again_while_the_assignment_is_made() -> None:
    world = ClassicWorld()
    joining = world.joining(version=3)
    world.pass_ms(INITIAL_DELAY_MS)
    first = value_of(joining)
    again = world.join(first.member_id)
    assert (again.generation_id, len(again.members)) == (1, 1)
    changed = world.joining(first.member_id, protocols=[("range", subscription("u"))])
    assert value_of(changed).generation_id == 2


def test_a_member_that_joins_during_the_assignment_interrupts_it() -> None:
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


def test_a_new_member_that_waits_for_too_long_is_told_to_begin_again() -> None:
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
    answer = value_of(joining)
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


def test_members_that_do_not_join_in_time_are_out() -> None:
    world = ClassicWorld()
    leader, follower, absent = world.stable(3, session_ms=5 * REBALANCE_MS)
    joins = [world.joining(leader), world.joining(follower)]
    world.pass_ms(REBALANCE_MS)
    assert [value_of(one).generation_id for one in joins] == [2, 2]
    assert set(world.group.members) == {leader, follower}
    assert world.heartbeat(absent, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_another_leads_if_the_leader_does_not_join() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2, session_ms=5 * REBALANCE_MS)
    joining = world.joining(follower, protocols=[("range", subscription("u"))])
    world.pass_ms(REBALANCE_MS)
    answer = value_of(joining)
    assert (answer.leader, len(answer.members)) == (follower, 1)
    assert leader not in world.group.members


def test_joining_is_told_to_whoever_watches() -> None:
    world = ClassicWorld()
    world.stable(1, reason="first start")
    assert world.events() == [
        EventKind.MEMBER_JOINED,
        EventKind.REBALANCE_STARTED,
        EventKind.GENERATION,
        EventKind.ASSIGNMENT,
    ]
    assert world.machine.events.of(GROUP)[0].reason == "first start"
