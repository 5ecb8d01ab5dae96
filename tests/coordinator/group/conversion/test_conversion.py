"""Online conversion of groups between the classic and the consumer protocol."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.protocol.record_frame import write_versioned
from barnabas.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
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
    """A stable classic group of one consumer that owns all partitions of t."""
    assigned = {name.replace("_", "."): value for name, value in settings.items()}
    world = ConsumerWorld({**QUICK, **assigned})
    member = world.new_id()
    joined = world.joining(member, protocols=[("range", world.subscription("t"))])
    world.pass_ms(1)
    assert value_of(joined).generation_id == 1
    world.sync(member, 1, {member: assignment_bytes({"t": [0, 1, 2, 3]})})
    return world, member


def rejoin(world: ConsumerWorld, member: str, **owned: list[int]) -> Any:
    """A classic member rejoins and reports its partitions."""
    return world.join(member, protocols=[("range", world.subscription("t", owned=owned))])


def test_a_classic_group_is_upgraded_when_a_consumer_protocol_member_joins() -> None:
    world, classic = classic_world()
    assert world.epoch_and_assignment(world.beat("m", 0)) == (2, {})
    group = world.consumers
    assert world.events().count(EventKind.GROUP_CONVERTED) == 1
    assert (group.classic_member_count, group.member_count) == (1, 2)
    assert world.owned(classic) == {"t": [0, 1, 2, 3]}
    # The classic member must rejoin; it revokes two partitions and the other member gets them.
    assert world.heartbeat(classic, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(world, classic, t=[0, 1, 2, 3]).generation_id == 1
    kept = world.classic_assignment(world.sync(classic, 1).assignment)["t"]
    assert len(kept) == 2
    assert world.heartbeat(classic, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(world, classic, t=kept).generation_id == 2
    assert world.classic_assignment(world.sync(classic, 2).assignment)["t"] == kept
    assert world.heartbeat(classic, 2) is ErrorCode.NONE
    assigned = world.epoch_and_assignment(world.beat("m", 2))[1]
    assert assigned is not None
    assert sorted([*kept, *assigned["t"]]) == [0, 1, 2, 3]
    check_invariants(group)


def test_a_group_of_both_protocols_is_the_same_after_a_restart() -> None:
    world, classic = classic_world()
    world.beat("m", 0)
    rejoin(world, classic, t=[0, 1])
    before = durable(world.consumers)
    world.reload()
    assert durable(world.consumers) == before
    assert world.consumers.classic_member_count == 1


def test_waiting_classic_members_must_rejoin() -> None:
    world, classic = classic_world()
    late = world.new_id()
    waiting = world.joining(late, protocols=[("range", world.subscription("t"))])
    world.beat("m", 0)
    assert value_of(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(world.consumers.members) == {classic, late, "m"}
    assert world.owned(late) == {}


def test_an_empty_group_is_converted_by_the_first_member() -> None:
    world, classic = classic_world()
    world.leave((classic, None))
    assert world.epoch_and_assignment(world.beat("m", 0))[0] == 1
    assert isinstance(world.machine.table.get(GROUP), ConsumerGroup)
    world.beat("m", -1)
    assert world.new_id()
    assert isinstance(world.machine.table.get(GROUP), ClassicGroup)
    world.reload()
    assert isinstance(world.machine.table.get(GROUP), ClassicGroup)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"group_consumer_migration_policy": "disabled"}, "online upgrade is disabled"),
        ({"group_consumer_migration_policy": "DOWNGRADE"}, "online upgrade is disabled"),
    ],
)
def test_a_group_that_cannot_be_upgraded_is_not_found(settings: dict[str, str], reason: str) -> None:
    world, classic = classic_world(**settings)
    response = world.beat("m", 0)
    assert isinstance(response, KafkaError)
    assert response.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert reason in response.message
    assert world.heartbeat(classic, 1) is ErrorCode.NONE


def test_a_group_that_is_too_large_or_not_of_consumers_is_not_upgraded() -> None:
    world, _ = classic_world()
    world.with_settings(group_consumer_max_size="1")
    late = world.new_id()
    world.joining(late, protocols=[("range", world.subscription("t"))])
    response = world.beat("m", 0)
    assert isinstance(response, KafkaError)
    assert "exceeds the consumer group maximum size" in response.message
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
    response = world.beat("m", 0)
    assert isinstance(response, KafkaError)
    assert response.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert "the embedded consumer protocol is malformed" in response.message
    assert isinstance(world.machine.table.get(GROUP), ClassicGroup)


def test_the_group_is_downgraded_when_the_last_consumer_protocol_member_leaves() -> None:
    world, classic = classic_world()
    world.beat("m", 0)
    rejoin(world, classic, t=[0, 1])
    world.beat("m", -1)
    group = world.group
    assert (group.generation, group.state_name) == (2, "PreparingRebalance")
    assert group.members[classic].protocols[0][0] == "range"
    # All members rejoin, into the next generation.
    assert world.heartbeat(classic, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(world, classic).generation_id == 3
    world.sync(classic, 3, {classic: assignment_bytes({"t": [0, 1, 2, 3]})})
    assert world.state == "Stable"


def test_the_group_is_downgraded_when_the_last_consumer_protocol_member_expires() -> None:
    world, classic = classic_world()
    world.beat("m", 0)
    rejoin(world, classic, t=[0, 1])
    world.sync(classic, 2)
    for _ in range(SESSION_MS // 5_000):
        world.pass_ms(5_000)
        world.heartbeat(classic, 2)
    assert world.group.generation == 2
    world.reload()
    # A classic member that sends no heartbeats is in turn removed from the classic group.
    world.pass_ms(60_000)
    assert world.group.is_empty


def test_a_downgraded_group_also_rebalances_after_a_failover() -> None:
    """F16: the partitions of removed members had no owner, and no member was asked to rejoin."""
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
    assert world.state == "Stable", "a failover after the rebalance does not repeat it"
    assert world.heartbeat(classic, kept + 1) is ErrorCode.NONE


def test_a_group_downgraded_by_a_static_replacement_does_not_rebalance_after_a_failover() -> None:
    world = ConsumerWorld(QUICK)
    world.beat("m", 0, instance_id="one")
    joined = world.join("", instance_id="one", protocols=[("range", world.subscription("t"))])
    world.reload()
    assert world.state == "Stable"
    assert world.group.leader_id == joined.member_id


def test_a_classic_member_must_rejoin_once_its_partitions_are_released() -> None:
    world = ConsumerWorld(QUICK)
    world.beat("m", 0)
    member = world.new_id(protocols=[("range", world.subscription("t"))])
    assert rejoin(world, member).generation_id == 2
    assert world.classic_assignment(world.sync(member, 2).assignment) == {}
    assert world.heartbeat(member, 2) is ErrorCode.NONE, "the other member has not revoked yet"
    world.settle("m")
    assert world.heartbeat(member, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(world, member).generation_id == 2
    assert len(world.classic_assignment(world.sync(member, 2).assignment)["t"]) == 2
    assert world.heartbeat(member, 2) is ErrorCode.NONE


def test_a_duplicate_protocol_of_a_classic_member_counts_once() -> None:
    """F12: the next member to join was rejected."""
    world = ConsumerWorld(QUICK)
    world.beat("m", 0)
    protocols = [("range", world.subscription("t")), ("range", world.subscription("t"))]
    for _ in range(2):
        member = world.new_id(protocols=protocols)
        assert world.join(member, protocols=protocols).error_code == 0
    world.leave((member, None))
    assert world.join(world.new_id(protocols=protocols), protocols=protocols).error_code == 0


def test_members_keep_their_partitions_when_the_group_is_upgraded() -> None:
    """The assignor gets the current owners, and moves no partition between them."""
    world = ConsumerWorld(QUICK, t=8)
    protocols = [("range", world.subscription("t"))]
    members = sorted(world.new_id(protocols=protocols) for _ in range(2))
    joins = [world.joining(member, protocols=protocols) for member in members]
    world.pass_ms(1)
    leader = value_of(joins[0]).leader
    # Unlike any assignor would assign them.
    owned = {members[0]: [1, 4, 6, 7], members[1]: [0, 2, 3, 5]}
    world.sync(leader, 1, {member: assignment_bytes({"t": owned[member]}) for member in members})
    assert world.epoch_and_assignment(world.beat("m", 0)) == (2, {})
    for member in members:
        kept = world.target(member)["t"]
        assert len(kept) in (2, 3) and set(kept) <= set(owned[member])


def test_a_group_with_assignor_user_data_cannot_be_upgraded() -> None:
    """User data written by a custom assignor would be lost."""
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
def test_a_downgrade_respects_the_maximum_size(max_size: str, becomes_classic: bool) -> None:
    world, classic = classic_world(group_max_size=max_size)
    world.beat("m", 0)
    rejoin(world, classic, t=[0, 1])
    assert rejoin(world, world.new_id(protocols=[("range", world.subscription("t"))])).error_code == 0
    world.beat("m", -1)
    assert isinstance(world.machine.table.get(GROUP), ClassicGroup) is becomes_classic


def test_the_group_is_not_downgraded_if_the_policy_forbids_it() -> None:
    world, classic = classic_world(group_consumer_migration_policy="upgrade")
    world.beat("m", 0)
    world.beat("m", -1)
    assert set(world.consumers.members) == {classic}
    world.leave((classic, None))
    assert world.consumers.is_empty


def test_a_static_member_may_return_to_the_classic_protocol() -> None:
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


def test_classic_members_have_session_and_sync_timeouts() -> None:
    world, classic = classic_world()
    world.beat("m", 0)
    rejoin(world, classic, t=[0, 1])
    # It joined and has to send SyncGroup.
    for _ in range(6):
        world.pass_ms(9_999)
        if classic in world.consumers.members:
            world.heartbeat(classic, 2)
        world.beat("m", 2)
    assert classic in world.consumers.members
    world.pass_ms(10)
    assert classic not in world.consumers.members, "it did not sync within its rebalance timeout"


def test_a_classic_member_that_does_not_rejoin_is_removed() -> None:
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
def test_commits_are_fenced_for_both_protocols(
    member: str, epoch: int, version: int, expected: ErrorCode | None
) -> None:
    world, classic = classic_world()
    world.beat("m", 0)
    who = classic if member == "classic" else member
    actual = None
    try:
        world.consumers.validate_offset_commit(who, None, epoch, transactional=False, api_version=version)
    except KafkaError as error:
        actual = error.code
    assert actual is expected


def test_offset_fetch_and_transactional_commit_validation() -> None:
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


def racked(rack_id: str | None) -> list[tuple[str, bytes]]:
    message = ConsumerProtocolSubscription(topics=["t"], rack_id=rack_id)
    return [("range", write_versioned(message, 3))]


def test_a_classic_member_keeps_what_is_known_of_it() -> None:
    world = ConsumerWorld(QUICK)
    member = world.new_id()
    joined = world.joining(member, protocols=racked("r1"), session_ms=9_000, rebalance_ms=50_000)
    world.pass_ms(1)
    assert value_of(joined).generation_id == 1
    world.sync(member, 1, {member: assignment_bytes({"t": [0, 1, 2, 3]})})
    world.beat("m", 0)
    known = world.consumers.members[member]
    assert (known.rack_id, known.rebalance_timeout_ms, known.instance_id) == ("r1", 50_000, None)
    assert (known.client_id, known.client_host) == ("client", "/127.0.0.1")
    assert (known.member_epoch, known.previous_member_epoch) == (1, 1)
    assert known.classic is not None
    assert known.classic.session_timeout_ms == 9_000
    assert [protocol.name for protocol in known.classic.protocols] == ["range"]
    world.join(member, protocols=racked(None), rebalance_ms=-1, session_ms=8_000)
    known = world.consumers.members[member]
    assert (known.rack_id, known.rebalance_timeout_ms) == ("r1", 50_000)
    assert known.classic is not None
    assert known.classic.session_timeout_ms == 8_000
    world.join(member, protocols=racked("r2"), rebalance_ms=40_000)
    known = world.consumers.members[member]
    assert (known.rack_id, known.rebalance_timeout_ms) == ("r2", 40_000)


def test_a_classic_member_of_a_consumer_group_expires_with_its_session() -> None:
    world, classic = classic_world()
    world.beat("m", 0)
    world.join(classic, protocols=racked(None), session_ms=9_000, rebalance_ms=50_000)
    world.pass_ms(8_999)
    assert classic in world.consumers.members
    world.pass_ms(1)
    assert set(world.consumers.members) == {"m"}


def test_static_classic_members_of_a_consumer_group_are_known_by_both_ids() -> None:
    world = ConsumerWorld(QUICK)
    joining = world.joining(instance_id="one", protocols=racked(None))
    world.pass_ms(1)
    member = value_of(joining).member_id
    world.sync(member, 1, {member: assignment_bytes({"t": [0, 1, 2, 3]})}, instance_id="one")
    world.beat("m", 0, instance_id="two")
    assert world.heartbeat(member, 1, "one") is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat("other", 1, "one") is ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat(member, 1, "three") is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat("m", 2, "two") is ErrorCode.UNKNOWN_MEMBER_ID, "it uses the other protocol"
    assert world.leave(("other", "one"), ("", "three"), (member, "two")) == [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert set(world.consumers.members) == {member, "m"}
    assert world.leave((member, "one"), ("", "two")) == [ErrorCode.NONE, ErrorCode.NONE]
    assert world.consumers.members == {}


def test_a_group_is_listed_by_its_kind_and_state() -> None:
    world, member = classic_world()

    def listed() -> tuple[str, str, str, str]:
        group = world.machine.table.find(GROUP).listed()
        return group.group_id, group.protocol_type, group.group_state, group.group_type

    assert listed() == (GROUP, "consumer", "Stable", "classic")
    assert world.machine.table.find(GROUP).has_member(member)
    world.beat("m", 0)
    assert listed() == (GROUP, "consumer", "Reconciling", "consumer")
    group = world.machine.table.find(GROUP)
    assert [group.has_member(name) for name in (member, "m", "x")] == [True, True, False]
    with pytest.raises(KafkaError) as refused:
        world.machine.table.find_kind(GROUP, ClassicGroup)
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.value.message == f"Group {GROUP} is not a classic group."


@pytest.mark.parametrize(
    ("protocol_type", "names", "expected"),
    [
        ("consumer", ["range"], True),
        ("consumer", ["other", "range"], True),
        ("consumer", ["roundrobin"], False),
        ("consumer", [], False),
        ("connect", ["range"], False),
    ],
)
def test_a_classic_member_must_support_what_the_others_do(
    protocol_type: str, names: list[str], expected: bool
) -> None:
    world, _ = classic_world()
    world.beat("m", 0)
    assert world.consumers.supports_classic_protocols(protocol_type, names) is expected
    empty = ConsumerGroup(GROUP)
    assert empty.supports_classic_protocols(protocol_type, names) is (
        protocol_type == "consumer" and bool(names)
    )
