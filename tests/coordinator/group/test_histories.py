"""The history of a group, as an operator reads it: what happened, to which member, why, in which generation."""

from __future__ import annotations

from collections.abc import Mapping

from tests.coordinator.group.worlds.classic_world import GROUP, REBALANCE_MS, SESSION_MS, ClassicWorld
from tests.coordinator.group.worlds.consumer_world import ConsumerWorld, assignment_bytes
from tests.coordinator.shard_world import value_of

Line = tuple[str, str, str, int]


def history(world: ClassicWorld, **names: str) -> list[Line]:
    """Kind, member, reason and generation of all events; member ids are replaced by names."""
    return [
        (event.kind.name, _named(event.who, names), _named(event.reason, names), event.generation)
        for event in world.machine.events.of(GROUP)
    ]


def _named(text: str, names: Mapping[str, str]) -> str:
    for name, member_id in names.items():
        text = text.replace(member_id, name)
    return text


def test_the_history_of_a_classic_group() -> None:
    world = ClassicWorld()
    start_ms = world.context.now_ms
    leader, follower = world.stable(2)
    world.pass_ms(1_000)
    world.leave((follower, None))
    world.join(leader)
    world.sync(leader, 2, {leader: b"all"})
    world.pass_ms(SESSION_MS)
    joins = "joins (instance id None; client's reason: not provided)"
    assert history(world, leader=leader, follower=follower) == [
        ("MEMBER_JOINED", "leader", "not provided", 0),
        ("REBALANCE_STARTED", "", f"leader {joins}", 0),
        ("MEMBER_JOINED", "follower", "not provided", 0),
        ("GENERATION", "", "", 1),
        ("ASSIGNMENT", "leader", "", 1),
        ("MEMBER_LEFT", "follower", "over", 1),
        ("REBALANCE_STARTED", "", "follower left by request", 1),
        ("GENERATION", "", "", 2),
        ("ASSIGNMENT", "leader", "", 2),
        ("MEMBER_EXPIRED", "leader", "no heartbeat within its session", 2),
        ("REBALANCE_STARTED", "", "member leader sent no heartbeat within its session", 2),
        ("GROUP_EMPTY", "", "", 3),
    ]
    last = world.machine.events.of(GROUP)[-1]
    assert last.at_ms == last.until_ms == world.context.now_ms > start_ms


def test_the_history_of_members_that_are_too_slow() -> None:
    long = 5 * REBALANCE_MS
    world = ClassicWorld()
    leader, follower = world.stable(2, session_ms=long)
    world.joining(leader, session_ms=long)
    world.pass_ms(REBALANCE_MS)
    world.pass_ms(REBALANCE_MS)
    assert history(world, leader=leader, follower=follower)[5:] == [
        ("REBALANCE_STARTED", "", "leader rejoins during Stable (client's reason: not provided)", 1),
        ("MEMBER_EXPIRED", "follower", "did not join in time", 1),
        ("GENERATION", "", "", 2),
        ("MEMBER_EXPIRED", "leader", "did not sync in time", 2),
        ("REBALANCE_STARTED", "", "1 members did not sync in time", 2),
        ("GROUP_EMPTY", "", "", 3),
    ]


def test_the_history_of_a_static_member() -> None:
    world = ClassicWorld()
    first, second = world.stable(2, instances=["one", "two"])
    replaced = dict(world.group.static_members)["two"]
    new = world.join(instance_id="two").member_id
    names = {"new": new, "first": first, "second": second}
    old = next(name for name, member_id in names.items() if member_id == replaced)
    assert history(world, **names)[5:] == [
        ("MEMBER_JOINED", "new", f"replaces {old}; client's reason: not provided", 1)
    ]


def test_the_history_of_a_consumer_group() -> None:
    world = ConsumerWorld()
    world.beat("a", 0)
    world.beat("b", 0)
    world.beat("a", -1)
    world.pass_ms(45_000)
    world.beat("c", 0, instance_id="one", server_assignor="range")
    world.beat("c", -2, instance_id="one")
    world.beat("d", 0, instance_id="one")
    assert history(world) == [
        ("GENERATION", "", "assigned by uniform", 1),
        ("MEMBER_JOINED", "a", "", 1),
        ("GENERATION", "", "assigned by uniform", 2),
        ("MEMBER_JOINED", "b", "", 2),
        ("MEMBER_LEFT", "a", "left", -1),
        ("MEMBER_EXPIRED", "b", "the member session expired", -1),
        ("GROUP_EMPTY", "", "", -1),
        ("GENERATION", "", "assigned by range", 5),
        ("MEMBER_JOINED", "c", "", 5),
        ("MEMBER_LEFT", "c", "left temporarily", -1),
        ("MEMBER_JOINED", "d", "", 5),
    ]


def test_the_history_of_a_member_that_keeps_revoked_partitions() -> None:
    world = ConsumerWorld()
    world.beat("a", 0)
    world.beat("b", 0)
    world.beat("a", 1)
    world.pass_ms(30_000)
    world.beat("a", 1)
    world.beat("b", 2)
    world.pass_ms(30_000)
    assert history(world)[-1] == (
        "MEMBER_EXPIRED",
        "a",
        "it failed to transition from epoch 1 within 60000ms",
        -1,
    )


def test_the_history_of_a_converted_group() -> None:
    world = ConsumerWorld({"group.initial.rebalance.delay.ms": "0"})
    member = world.new_id()
    joining = world.joining(member, protocols=[("range", world.subscription("t"))])
    world.pass_ms(1)
    assert value_of(joining).generation_id == 1
    world.sync(member, 1, {member: assignment_bytes({"t": [0, 1, 2, 3]})})
    world.beat("new", 0)
    world.beat("new", -1)
    assert history(world, member=member)[4:] == [
        ("GROUP_CONVERTED", "", "to the consumer protocol", -1),
        ("GENERATION", "", "assigned by uniform", 2),
        ("MEMBER_JOINED", "new", "", 2),
        ("MEMBER_LEFT", "new", "left", -1),
        ("GROUP_CONVERTED", "", "to the classic protocol", 2),
        ("REBALANCE_STARTED", "", "Downgrade group g from consumer to classic.", 2),
    ]
