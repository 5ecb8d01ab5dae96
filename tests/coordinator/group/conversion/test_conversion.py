"""Groups that change their protocol while members run."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.protocol.record_frame import write_versioned
from barnabas.protocol.records.consumer_protocol import ConsumerProtocolAssignment
from tests.coordinator.group.worlds.classic_world import GROUP
from tests.coordinator.group.worlds.consumer_world import (
    SESSION_MS,
    ConsumerWorld,
    assignment_bytes,
    check_invariants,
    durable,
)
from tests.coordinator.shard_world import value_of

QUICK = {"group.initial.rebalance.delay.ms": "0"}


def classic_world(**settings: Any) -> tuple[ConsumerWorld, str]:
    """A stable classic group of one consumer that owns all of t."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    world = ConsumerWorld({**QUICK, **given})
    member = world.new_id()
    joined = world.joining(member, protocols=[("range", world.subscription("t"))])
    world.pass_ms(1)
    assert value_of(joined).generation_id == 1
    world.sync(member, 1, {member: assignment_bytes({"t": [0, 1, 2, 3]})})
    return world, member


def rejoin(world: ConsumerWorld, member: str, **owned: list[int]) -> Any:
    """A member of the classic kind joins again and says what it has."""
    return world.join(member, protocols=[("range", world.subscription("t", owned=owned))])


def test_a_classic_group_becomes_a_consumer_group_when_such_a_member_joins() -> None:
    world, classic = classic_world()
    assert world.told(world.beat("m", 0)) == (2, {})
    group = world.consumers
    assert world.events().count(EventKind.GROUP_CONVERTED) == 1
    assert (group.classic_member_count, group.member_count) == (1, 2)
    assert world.owned(classic) == {"t": [0, 1, 2, 3]}
    # The classic member is told to join; it gives up two and the other gets them.
    assert world.heartbeat(classic, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(world, classic, t=[0, 1, 2, 3]).generation_id == 1
    kept = world.classic_assignment(world.sync(classic, 1).assignment)["t"]
    assert len(kept) == 2
    assert world.heartbeat(classic, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(world, classic, t=kept).generation_id == 2
    assert world.classic_assignment(world.sync(classic, 2).assignment)["t"] == kept
    assert world.heartbeat(classic, 2) is ErrorCode.NONE
    given = world.told(world.beat("m", 2))[1]
    assert given is not None
    assert sorted([*kept, *given["t"]]) == [0, 1, 2, 3]
    check_invariants(group)


def test_a_group_of_both_kinds_is_the_same_after_a_restart() -> None:
    world, classic = classic_world()
    world.beat("m", 0)
    rejoin(world, classic, t=[0, 1])
    before = durable(world.consumers)
    world.reload()
    assert durable(world.consumers) == before
    assert world.consumers.classic_member_count == 1


def test_members_of_the_classic_kind_that_wait_are_told_to_join_again() -> None:
    world, classic = classic_world()
    late = world.new_id()
    waiting = world.joining(late, protocols=[("range", world.subscription("t"))])
    world.beat("m", 0)
    assert value_of(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(world.consumers.members) == {classic, late, "m"}
    assert world.owned(late) == {}


def test_an_empty_group_changes_its_kind_with_who_joins() -> None:
    world, classic = classic_world()
    world.leave((classic, None))
    assert world.told(world.beat("m", 0))[0] == 1
    assert isinstance(world.machine.table.get(GROUP), ConsumerGroup)
    world.beat("m", -1)
    assert world.new_id()
    assert isinstance(world.machine.table.get(GROUP), ClassicGroup)
    world.reload()
    assert isinstance(world.machine.table.get(GROUP), ClassicGroup)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"group_consumer_migration_policy": "disabled"}, "online upgrade is disabled"),
        ({"group_consumer_migration_policy": "DOWNGRADE"}, "online upgrade is disabled"),
    ],
)
def test_a_group_that_may_not_be_upgraded_is_not_there(settings: dict[str, str], words: str) -> None:
    world, classic = classic_world(**settings)
    answer = world.beat("m", 0)
    assert isinstance(answer, KafkaError)
    assert answer.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert words in answer.message
    assert world.heartbeat(classic, 1) is ErrorCode.NONE


def test_a_group_that_is_too_large_or_no_consumers_is_not_upgraded() -> None:
    world, _ = classic_world()
    world.with_settings(group_consumer_max_size="1")
    late = world.new_id()
    world.joining(late, protocols=[("range", world.subscription("t"))])
    answer = world.beat("m", 0)
    assert isinstance(answer, KafkaError)
    assert "exceeds the consumer group maximum size" in answer.message
    other = ConsumerWorld(QUICK)
    member = other.new_id(protocol_type="connect")
    other.joining(member, protocol_type="connect")
    refused = other.beat("m", 0)
    assert isinstance(refused, KafkaError)
    assert "does not use the consumer embedded protocol" in refused.message


def test_malformed_subscriptions_are_not_upgraded() -> None:
    world = ConsumerWorld(QUICK)
    member = world.new_id()
    world.joining(member, protocols=[("range", b"\x00")])
    answer = world.beat("m", 0)
    assert isinstance(answer, KafkaError)
    assert answer.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert "the embedded consumer protocol is malformed" in answer.message
    assert isinstance(world.machine.table.get(GROUP), ClassicGroup)


def test_the_group_becomes_classic_when_the_last_member_of_the_other_kind_leaves() -> None:
    world, classic = classic_world()
    world.beat("m", 0)
    rejoin(world, classic, t=[0, 1])
    world.beat("m", -1)
    group = world.group
    assert (group.generation, group.state_name) == (2, "PreparingRebalance")
    assert group.members[classic].protocols[0][0] == "range"
    # Everybody joins again, into the next generation.
    assert world.heartbeat(classic, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(world, classic).generation_id == 3
    world.sync(classic, 3, {classic: assignment_bytes({"t": [0, 1, 2, 3]})})
    assert world.state == "Stable"


def test_the_group_becomes_classic_when_the_other_kind_dies() -> None:
    world, classic = classic_world()
    world.beat("m", 0)
    rejoin(world, classic, t=[0, 1])
    world.sync(classic, 2)
    for _ in range(SESSION_MS // 5_000):
        world.pass_ms(5_000)
        world.heartbeat(classic, 2)
    assert world.group.generation == 2
    world.reload()
    # A classic member that is silent is out of the classic group in its turn.
    world.pass_ms(60_000)
    assert world.group.is_empty


def test_a_group_that_became_classic_rebalances_after_a_fail_over_too() -> None:
    """F16: nobody owned what the members of the other kind had owned, and nobody was told to join again."""
    world, classic = classic_world()
    world.beat("m", 0)
    kept = rejoin(world, classic, t=[0, 1]).generation_id
    world.sync(classic, kept)
    world.beat("m", -1)
    assert world.state == "PreparingRebalance"
    world.reload()
    assert world.heartbeat(classic, kept) is ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(world, classic).generation_id == kept + 1
    world.sync(classic, kept + 1, {classic: assignment_bytes({"t": [0, 1, 2, 3]})})
    world.reload()
    assert world.state == "Stable", "once it has rebalanced, a fail-over does not make it do so again"
    assert world.heartbeat(classic, kept + 1) is ErrorCode.NONE


def test_a_group_with_a_static_member_in_anothers_place_need_not_rebalance_after_a_fail_over() -> None:
    world = ConsumerWorld(QUICK)
    world.beat("m", 0, instance_id="one")
    joined = world.join("", instance_id="one", protocols=[("range", world.subscription("t"))])
    world.reload()
    assert world.state == "Stable"
    assert world.group.leader_id == joined.member_id


def test_a_member_of_the_classic_kind_is_told_to_join_when_what_it_waits_for_is_free() -> None:
    world = ConsumerWorld(QUICK)
    world.beat("m", 0)
    member = world.new_id(protocols=[("range", world.subscription("t"))])
    assert rejoin(world, member).generation_id == 2
    assert world.classic_assignment(world.sync(member, 2).assignment) == {}
    assert world.heartbeat(member, 2) is ErrorCode.NONE, "the other has yet to give something up"
    world.settle("m")
    assert world.heartbeat(member, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(world, member).generation_id == 2
    assert len(world.classic_assignment(world.sync(member, 2).assignment)["t"]) == 2
    assert world.heartbeat(member, 2) is ErrorCode.NONE


def test_a_protocol_that_a_member_of_the_classic_kind_names_twice_counts_once() -> None:
    """F12: the next one that joined was refused."""
    world = ConsumerWorld(QUICK)
    world.beat("m", 0)
    protocols = [("range", world.subscription("t")), ("range", world.subscription("t"))]
    for _ in range(2):
        member = world.new_id(protocols=protocols)
        assert world.join(member, protocols=protocols).error_code == 0
    world.leave((member, None))
    assert world.join(world.new_id(protocols=protocols), protocols=protocols).error_code == 0


def test_members_keep_what_they_own_when_their_group_becomes_a_consumer_group() -> None:
    """The assignor hears who owned what, and takes from nobody what it gives to another one of them."""
    world = ConsumerWorld(QUICK, t=8)
    protocols = [("range", world.subscription("t"))]
    members = sorted(world.new_id(protocols=protocols) for _ in range(2))
    joins = [world.joining(member, protocols=protocols) for member in members]
    world.pass_ms(1)
    leader = value_of(joins[0]).leader
    # Not as any assignor would do it.
    owned = {members[0]: [1, 4, 6, 7], members[1]: [0, 2, 3, 5]}
    world.sync(leader, 1, {member: assignment_bytes({"t": owned[member]}) for member in members})
    assert world.told(world.beat("m", 0)) == (2, {})
    for member in members:
        kept = world.target(member)["t"]
        assert len(kept) in (2, 3) and set(kept) <= set(owned[member])


def test_a_group_whose_assignor_keeps_notes_of_its_own_cannot_change() -> None:
    """What a custom assignor writes into user data would be lost."""
    world = ConsumerWorld(QUICK)
    member = world.new_id()
    world.joining(member, protocols=[("range", world.subscription("t"))])
    world.pass_ms(1)
    topics = [ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[0])]
    noted = ConsumerProtocolAssignment(assigned_partitions=topics, user_data=b"notes")
    world.sync(member, 1, {member: write_versioned(noted, 1)})
    refused = world.beat("m", 0)
    assert isinstance(refused, KafkaError) and refused.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert "an unsupported custom assignor is in use" in refused.message
    assert (world.state, world.store.end) == ("Stable", 2), "nothing was written"


@pytest.mark.parametrize(("max_size", "becomes_classic"), [("1", False), ("2", True)])
def test_a_group_becomes_classic_only_if_that_many_members_are_allowed(
    max_size: str, becomes_classic: bool
) -> None:
    world, classic = classic_world(group_max_size=max_size)
    world.beat("m", 0)
    rejoin(world, classic, t=[0, 1])
    assert rejoin(world, world.new_id(protocols=[("range", world.subscription("t"))])).error_code == 0
    world.beat("m", -1)
    assert isinstance(world.machine.table.get(GROUP), ClassicGroup) is becomes_classic


def test_the_group_stays_as_it_is_where_downgrades_are_forbidden() -> None:
    world, classic = classic_world(group_consumer_migration_policy="upgrade")
    world.beat("m", 0)
    world.beat("m", -1)
    assert set(world.consumers.members) == {classic}
    world.leave((classic, None))
    assert world.consumers.is_empty


def test_a_static_member_may_go_back_to_the_classic_protocol() -> None:
    world = ConsumerWorld(QUICK)
    world.beat("m", 0, instance_id="one")
    joined = world.join("", instance_id="one", protocols=[("range", world.subscription("t"))])
    assert joined.error_code == 0
    group = world.group
    assert group.static_members == {"one": joined.member_id}
    assert (group.generation, group.state_name) == (1, "Stable")
    assert world.classic_assignment(group.members[joined.member_id].assignment) == {"t": [0, 1, 2, 3]}
    world.reload()
    assert world.group.static_members == {"one": joined.member_id}


def test_members_of_the_classic_kind_keep_their_times() -> None:
    world, classic = classic_world()
    world.beat("m", 0)
    rejoin(world, classic, t=[0, 1])
    # It joined and has to ask for its assignment.
    for _ in range(6):
        world.pass_ms(9_999)
        if classic in world.consumers.members:
            world.heartbeat(classic, 2)
        world.beat("m", 2)
    assert classic in world.consumers.members
    world.pass_ms(10)
    assert classic not in world.consumers.members, "it did not sync within its rebalance time-out"


def test_a_member_of_the_classic_kind_that_does_not_join_again_is_out() -> None:
    world, classic = classic_world()
    world.beat("m", 0)
    for _ in range(6):
        assert world.heartbeat(classic, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        world.pass_ms(9_990)
        world.beat("m", 2)
    assert world.heartbeat(classic, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_ms(100)
    assert list(world.consumers.members) == ["m"]


def test_classic_requests_to_a_consumer_group_are_fenced() -> None:
    world, classic = classic_world()
    world.beat("m", 0)
    assert world.heartbeat("m", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat("nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(classic, 7) is ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat(classic, 1, "instance") is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.sync(classic, 1).code is ErrorCode.REBALANCE_IN_PROGRESS
    rejoin(world, classic, t=[0, 1])
    assert world.sync(classic, 2, protocol="roundrobin").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(classic, 2, protocol_type="connect").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join("x", protocols=[("sticky", world.subscription("t"))]).code is (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert world.join("", protocols=[("range", world.subscription("t"))]).error_code == (
        ErrorCode.MEMBER_ID_REQUIRED
    )
    assert world.leave((classic, None), ("nobody", None), ("", "nothing")) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]


@pytest.mark.parametrize(
    ("member", "epoch", "version", "expected"),
    [
        ("m", 2, 9, None),
        ("m", 2, 8, ErrorCode.UNSUPPORTED_VERSION),
        ("m", 1, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("classic", 1, 8, None),
        ("classic", 2, 8, ErrorCode.ILLEGAL_GENERATION),
        ("nobody", 2, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_commits_are_fenced_for_both_kinds(
    member: str, epoch: int, version: int, expected: ErrorCode | None
) -> None:
    world, classic = classic_world()
    world.beat("m", 0)
    who = classic if member == "classic" else member
    found = None
    try:
        world.consumers.validate_offset_commit(who, None, epoch, transactional=False, api_version=version)
    except KafkaError as error:
        found = error.code
    assert found is expected


def test_who_may_fetch_offsets_and_who_commits_in_transactions() -> None:
    world = ConsumerWorld()
    world.beat("m", 0)
    group = world.consumers
    group.validate_offset_fetch(None, -1)
    group.validate_offset_fetch("m", 1)
    with pytest.raises(KafkaError, match="member epoch 2 does not match") as stale:
        group.validate_offset_fetch("m", 2)
    assert stale.value.code is ErrorCode.STALE_MEMBER_EPOCH
    with pytest.raises(KafkaError):
        group.validate_offset_fetch("nobody", 1)
    group.validate_offset_commit("", None, -1, transactional=True, api_version=0)
    group.validate_offset_commit("m", None, 1, transactional=True, api_version=3)
    assert group.is_subscribed_to("t")
    expiration = group.offset_expiration()
    assert expiration is not None
    assert expiration(7) == 7
