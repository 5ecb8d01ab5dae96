"""Decisions about classic groups change nothing until they are accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from tests.coordinator.group.worlds.classic_world import CALLER, GROUP, INITIAL_DELAY_MS, TOPIC, ClassicWorld
from tests.coordinator.shard_world import PENDING, value_of

Decide = Callable[[GroupMachine, Context], Decision[Any]]


def join(member_id: str, *, version: int = 9, instance_id: str | None = None) -> Decide:
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=TOPIC)],
    )
    caller = CALLER._replace(api_version=version)
    return lambda machine, context: machine.classic.join(request, caller, context)


def sync(member_id: str, generation: int) -> Decide:
    request = SyncGroupRequest(group_id=GROUP, generation_id=generation, member_id=member_id, assignments=[])
    return lambda machine, context: machine.classic.sync(request, context)


def leave(*member_ids: str) -> Decide:
    members = [LeaveGroupRequest.MemberIdentity(member_id=member_id) for member_id in member_ids]
    request = LeaveGroupRequest(group_id=GROUP, members=members)
    return lambda machine, context: machine.classic.leave(request, context)


def beat(member_id: str) -> Decide:
    request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id)
    return lambda machine, context: machine.classic.heartbeat(request, context)


def seen(world: ClassicWorld) -> object:
    """What a decision could change: the group with its members, waiting requests, timers, events."""
    group = world.machine.table.get(GROUP)
    fields: dict[str, Any] = {}
    if isinstance(group, ClassicGroup):
        fields = {name: getattr(group, name) for name in ClassicGroup.__slots__}
        fields = {name: dict(value) if isinstance(value, dict) else value for name, value in fields.items()}
    timers = world.machine.timers
    due = [(timer.key, timer.deadline_ms, timer.decide) for timer in timers._timers.values()]
    return group, fields, due, world.machine.events.of(GROUP)


def of_new_group(world: ClassicWorld) -> Decide:
    return join("", version=3)


def of_new_id(world: ClassicWorld) -> Decide:
    world.stable(1)
    return join("")


def of_new_member(world: ClassicWorld) -> Decide:
    world.stable(2)
    return join("", version=3)


def of_last_member(world: ClassicWorld) -> Decide:
    """The last member to join: all waiting members get their responses."""
    leader, follower = world.stable(2)
    world.joining(leader)
    return join(follower)


def of_static_member(world: ClassicWorld) -> Decide:
    world.stable(2, instances=["one", "two"])
    return join("", instance_id="one")


def of_leader(world: ClassicWorld) -> Decide:
    """Its assignment completes the waiting SyncGroups."""
    joins = [world.joining(version=3) for _ in range(2)]
    world.pass_ms(2 * INITIAL_DELAY_MS)
    leader = next(response for response in map(value_of, joins) if response.leader == response.member_id)
    return sync(leader.member_id, 1)


def of_all_who_leave(world: ClassicWorld) -> Decide:
    return leave(*world.stable(2))


def of_heartbeat(world: ClassicWorld) -> Decide:
    leader = world.stable(1)[0]
    world.pass_ms(10)
    return beat(leader)


DECISIONS = [
    of_new_group,
    of_new_id,
    of_new_member,
    of_last_member,
    of_static_member,
    of_leader,
    of_all_who_leave,
    of_heartbeat,
]


@pytest.mark.parametrize("prepare", DECISIONS)
def test_a_decision_changes_nothing_until_it_is_accepted(prepare: Callable[[ClassicWorld], Decide]) -> None:
    world = ClassicWorld()
    decide = prepare(world)
    world.machine.timers.now_ms = world.now_ms
    before = seen(world)
    decision = decide(world.machine, world.context)
    assert seen(world) == before
    for entry in decision.entries:
        world.machine.apply(entry, None)
    assert decision.accepted is not None
    decision.accepted()
    assert seen(world) != before


def test_a_decision_completes_no_request() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    waiting = world.joining(leader)
    decision = join(follower)(world.machine, world.context)
    assert value_of(waiting) is PENDING
    assert decision.accepted is not None
    decision.accepted()
    assert value_of(waiting).generation_id == 2


def test_members_stay_if_the_log_rejects_their_leave() -> None:
    """The group looked empty, and a reloaded shard had its members again."""
    world = ClassicWorld()
    member_id = world.stable(1)[0]
    before = seen(world)
    world.store.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert value_of(world.ask(leave(member_id))).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert seen(world) == before
    world.store.refusal = None
    assert world.leave((member_id, None)) == [ErrorCode.NONE]
    world.reload()
    assert world.state == "Empty"


def test_a_session_expiration_that_the_log_rejects_is_retried() -> None:
    """The timer ran again, did not find the member, and the group's end was never written."""
    world = ClassicWorld()
    world.stable(1, session_ms=6_000)
    world.store.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.pass_ms(6_000)
    assert world.state == "Stable"
    world.store.refusal = None
    world.pass_ms(1_000)
    assert world.state == "Empty"
    world.reload()
    assert world.state == "Empty"
