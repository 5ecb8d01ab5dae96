"""Scenarios of classic groups, request by request: the same requests go to Apache Kafka and to our broker.

One function per scenario, with legal and illegal requests; `classic_talk.py` sends them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.verify.answers.classic_talk import Member, Scene

Scenario = Callable[[Scene], None]

SESSION_MS = 30_000
# A subscription to `letters` as consumers write it, version 0.
LETTERS = b"\x00\x00\x00\x00\x00\x01\x00\x07letters\xff\xff\xff\xff"
DIGITS = b"\x00\x00\x00\x00\x00\x01\x00\x06digits\xff\xff\xff\xff"
JOIN_VERSIONS = range(10)


def joining(group_id: str, member_id: str = "", **more: Any) -> dict[str, Any]:
    names = more.pop("names", ("range",))
    metadata = more.pop("metadata", LETTERS)
    return {
        "group_id": group_id,
        "member_id": member_id,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": SESSION_MS,
        "protocol_type": "consumer",
        "protocols": [{"name": name, "metadata": metadata} for name in names],
        **more,
    }


def syncing(group_id: str, member_id: str, generation: int, **more: Any) -> dict[str, Any]:
    assignments = more.pop("assignments", {})
    return {
        "group_id": group_id,
        "member_id": member_id,
        "generation_id": generation,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": one, "assignment": data} for one, data in assignments.items()],
        **more,
    }


def beat(member: Member, title: str, group_id: str, member_id: str, generation: int, **more: Any) -> None:
    version = more.pop("version", 4)
    member.ask(
        title, "Heartbeat", version, group_id=group_id, member_id=member_id, generation_id=generation, **more
    )


def described(member: Member, title: str, group_id: str) -> None:
    for version in (0, 3, 5, 6):
        more = {"include_authorized_operations": True} if version >= 3 else {}
        member.ask(title, "DescribeGroups", version, groups=[group_id], **more)


def enter(member: Member, group_id: str, version: int = 9) -> str:
    """Join alone and be the leader of a stable group."""
    title = f"{member.name} enters {group_id}"
    member.ask(f"{title}: id", "JoinGroup", version, **joining(group_id))
    given = str(member.last["member_id"])
    member.ask(f"{title}: join", "JoinGroup", version, **joining(group_id, given))
    generation = member.last["generation_id"]
    member.ask(
        f"{title}: sync", "SyncGroup", 5, **syncing(group_id, given, generation, assignments={given: b"all"})
    )
    return given


def one_member_in_every_version(scene: Scene) -> None:
    for version in JOIN_VERSIONS:
        group = scene.group(f"v{version}")
        one = scene.member(f"one{version}")
        one.ask("join", "JoinGroup", version, **joining(group))
        given = one.last["member_id"]
        if version >= 4:
            one.ask("join with an id", "JoinGroup", version, **joining(group, given))
        sync = min(version, 5)
        one.ask(
            f"sync of {version}", "SyncGroup", sync, **syncing(group, given, 1, assignments={given: b"a"})
        )
        beat(one, f"beat of {version}", group, given, 1, version=min(version, 4))
        described(one, f"described {version}", group)
        leaving = min(version, 5)
        if leaving < 3:
            one.ask(f"leave of {version}", "LeaveGroup", leaving, group_id=group, member_id=given)
            one.ask(f"leave of {version} again", "LeaveGroup", leaving, group_id=group, member_id=given)
        else:
            members = [{"member_id": given}]
            one.ask(f"leave of {version}", "LeaveGroup", leaving, group_id=group, members=members)
            one.ask(f"leave of {version} again", "LeaveGroup", leaving, group_id=group, members=members)
        described(one, f"left {version}", group)


def two_members(scene: Scene) -> None:
    group = scene.group("two")
    first, second = scene.member("first"), scene.member("second")
    leader = enter(first, group)
    second.ask("an id for the second", "JoinGroup", 9, **joining(group))
    follower = second.last["member_id"]
    described(first, "one waits", group)
    second.send("second joins", "JoinGroup", 9, **joining(group, follower, reason="why not"))
    second.is_silent("the second waits for the first")
    described(first, "rebalancing", group)
    beat(first, "rebalance in progress", group, leader, 1)
    first.ask("sync while preparing", "SyncGroup", 5, **syncing(group, leader, 1))
    first.ask("leader joins again", "JoinGroup", 9, **joining(group, leader))
    second.hear()
    second.send("follower syncs", "SyncGroup", 5, **syncing(group, follower, 2))
    second.is_silent("the follower waits for the leader")
    described(first, "completing", group)
    beat(first, "beat while completing", group, leader, 2)
    first.ask("sync with an old generation", "SyncGroup", 5, **syncing(group, leader, 1))
    first.ask("join again while completing", "JoinGroup", 9, **joining(group, leader))
    first.ask(
        "leader syncs",
        "SyncGroup",
        5,
        **syncing(group, leader, 2, assignments={follower: b"f", "nobody": b"n"}),
    )
    second.hear()
    described(first, "stable", group)
    second.ask("follower joins again", "JoinGroup", 9, **joining(group, follower))
    second.ask("follower syncs again", "SyncGroup", 5, **syncing(group, follower, 2))
    second.send("follower changes", "JoinGroup", 9, **joining(group, follower, metadata=DIGITS))
    second.is_silent("the follower waits for the leader once more")
    first.ask("leave while the other waits", "LeaveGroup", 5, group_id=group, members=[{"member_id": leader}])
    second.hear()
    second.ask("alone", "SyncGroup", 5, **syncing(group, follower, 3, assignments={follower: b"x"}))
    described(second, "the second is left", group)


def static_members(scene: Scene) -> None:
    group = scene.group("static")
    one, two = scene.member("one"), scene.member("two")
    name = {"group_instance_id": "first"}
    one.ask("joins", "JoinGroup", 9, **joining(group, **name))
    old = one.last["member_id"]
    one.ask("syncs", "SyncGroup", 5, **syncing(group, old, 1, assignments={old: b"a"}, **name))
    two.ask("comes back", "JoinGroup", 9, **joining(group, **name))
    new = two.last["member_id"]
    two.ask("gets its assignment", "SyncGroup", 5, **syncing(group, new, 1, **name))
    beat(one, "the old one is fenced", group, old, 1, **name)
    beat(one, "the old one without a name", group, old, 1)
    one.ask("fenced join", "JoinGroup", 9, **joining(group, old, **name))
    one.ask("fenced sync", "SyncGroup", 5, **syncing(group, old, 1, **name))
    fenced = [{"member_id": old, **name}, {"member_id": new, "group_instance_id": "nobody"}]
    one.ask("fenced leave", "LeaveGroup", 5, group_id=group, members=fenced)
    beat(two, "an unknown name", group, new, 1, group_instance_id="nobody")
    one.ask("comes back in an older version", "JoinGroup", 8, **joining(group, **name))
    newest = one.last["member_id"]
    one.ask("its assignment", "SyncGroup", 5, **syncing(group, newest, 1, **name))
    described(one, "static", group)
    two.ask("another static member", "JoinGroup", 9, **joining(group, "made-up", group_instance_id="second"))
    two.send("a second one", "JoinGroup", 9, **joining(group, group_instance_id="second"))
    two.is_silent("the second one waits")
    one.ask("the first rejoins", "JoinGroup", 9, **joining(group, newest, **name))
    two.hear()
    two.ask("comes back while completing", "JoinGroup", 5, **joining(group, newest, **name))
    by_name = [
        {"member_id": "", "group_instance_id": "second"},
        {"member_id": "", "group_instance_id": "third"},
    ]
    one.ask("removed by name", "LeaveGroup", 4, group_id=group, members=by_name)
    described(one, "one is left", group)


def illegal_requests(scene: Scene) -> None:
    group = scene.group("illegal")
    one = scene.member("one")
    for session_ms in (0, -1, 5_999, 1_800_001):
        for version in (0, 9):
            one.ask(
                f"session of {session_ms}",
                "JoinGroup",
                version,
                **joining(group, "m", session_timeout_ms=session_ms),
            )
    for version in JOIN_VERSIONS:
        one.ask("no group id", "JoinGroup", version, **joining("", "m"))
        one.ask("an id that nobody gave out", "JoinGroup", version, **joining(group, "made-up"))
        one.ask("no type", "JoinGroup", version, **joining(group, protocol_type=""))
        one.ask("no protocols", "JoinGroup", version, **joining(group, names=()))
    one.ask("both missing", "JoinGroup", 9, **joining(group, protocol_type="", names=()))
    one.ask("a member with a name", "JoinGroup", 9, **joining(group, "made-up", group_instance_id="x"))
    missing = f"{group}-missing"
    for version in range(6):
        one.ask("sync: no group id", "SyncGroup", version, **syncing("", "m", 1))
        one.ask("sync: no such member", "SyncGroup", version, **syncing(group, "m", 1))
        one.ask("sync: no such group", "SyncGroup", version, **syncing(missing, "m", 1))
        members = {"members": [{"member_id": "m"}]} if version >= 3 else {"member_id": "m"}
        one.ask("leave: no group id", "LeaveGroup", version, group_id="", **members)
        one.ask("leave: no such member", "LeaveGroup", version, group_id=group, **members)
        one.ask("leave: no such group", "LeaveGroup", version, group_id=missing, **members)
    for version in range(3, 6):
        one.ask("leave: nobody", "LeaveGroup", version, group_id=group, members=[])
        one.ask("leave: nobody of no group", "LeaveGroup", version, group_id=missing, members=[])
    for version in range(5):
        beat(one, "beat: no group id", "", "m", 1, version=version)
        beat(one, "beat: no such member", group, "m", 1, version=version)
        beat(one, "beat: no such group", missing, "m", 1, version=version)
    one.ask("sync: no protocol name", "SyncGroup", 5, **syncing(group, "m", 1, protocol_name=None))
    one.ask("sync: no protocol type", "SyncGroup", 5, **syncing(group, "m", 1, protocol_type=None))
    leader = enter(one, group)
    for generation in (0, 2, -1):
        beat(one, f"beat: generation {generation}", group, leader, generation)
        one.ask(f"sync: generation {generation}", "SyncGroup", 5, **syncing(group, leader, generation))
    one.ask("sync: another protocol", "SyncGroup", 5, **syncing(group, leader, 1, protocol_name="sticky"))
    one.ask("sync: another type", "SyncGroup", 5, **syncing(group, leader, 1, protocol_type="connect"))
    one.ask("sync: older, no protocol", "SyncGroup", 4, **syncing(group, leader, 1, protocol_name=None))
    one.ask("join: another type", "JoinGroup", 9, **joining(group, protocol_type="connect"))
    one.ask("join: nothing in common", "JoinGroup", 9, **joining(group, names=("sticky",)))
    one.ask(
        "join: the leader, nothing in common", "JoinGroup", 9, **joining(group, leader, names=("sticky",))
    )
    one.ask(
        "join: a name that is not the member's",
        "JoinGroup",
        9,
        **joining(group, leader, group_instance_id="x"),
    )
    one.ask(
        "sync: a name that is not the member's",
        "SyncGroup",
        5,
        **syncing(group, leader, 1, group_instance_id="x"),
    )


def listing_and_deleting(scene: Scene) -> None:
    full, empty, plain_group = scene.group("full"), scene.group("empty"), scene.group("plain")
    one = scene.member("one")
    enter(one, full)
    leaver = enter(one, empty)
    one.ask("empty the other", "LeaveGroup", 5, group_id=empty, members=[{"member_id": leaver}])
    offsets = [{"name": "letters", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    one.ask(
        "a commit without a member", "OffsetCommit", 8, group_id=plain_group, member_id="", topics=offsets
    )
    for version in range(6):
        listed(scene, one, f"all {version}", version)
    for states in (["Stable"], ["empty", "STABLE"], [" Stable "], ["Dead"], ["nonsense"], [""]):
        listed(scene, one, f"states {states}", 4, states_filter=states)
    for types in (
        ["classic"],
        ["CLASSIC"],
        ["consumer"],
        ["nonsense"],
        ["share", "classic"],
        [" classic"],
        [""],
    ):
        listed(scene, one, f"types {types}", 5, types_filter=types)
    listed(scene, one, "both", 5, types_filter=["classic"], states_filter=["Empty"])
    listed(scene, one, "nothing is both", 5, types_filter=["consumer"], states_filter=["Stable"])
    described(one, "a simple group", plain_group)
    described(one, "nobody", f"{full}-missing")
    described(one, "no name", "")
    for version in range(3):
        names = [full, f"{full}-missing", full]
        one.ask("delete what cannot be", "DeleteGroups", version, groups_names=names)
        one.ask("delete nothing", "DeleteGroups", version, groups_names=[])
        one.ask("delete what has no name", "DeleteGroups", version, groups_names=[""])
    one.ask("delete two", "DeleteGroups", 2, groups_names=[empty, plain_group])
    one.ask("delete them again", "DeleteGroups", 2, groups_names=[empty, plain_group])
    listed(scene, one, "after that", 5)


def listed(scene: Scene, member: Member, title: str, version: int, **filters: Any) -> None:
    """Of this scenario alone."""
    heard, scene.heard = scene.heard, {}
    answer = member.ask(title, "ListGroups", version, **filters)
    scene.heard = heard
    own = [one for one in answer["groups"] if one["group_id"].startswith(scene.prefix)]
    scene.keep(f"{title} v{version}", {**answer, "groups": own})


def finding(scene: Scene) -> None:
    group = scene.group("found")
    one = scene.member("one")
    for version in range(4):
        one.ask("a group", "FindCoordinator", version, key=group)
        one.ask("no name", "FindCoordinator", version, key="")
    for version in (1, 2, 3):
        for kind in (0, 2, 3, -1):
            one.ask(f"type {kind}", "FindCoordinator", version, key=group, key_type=kind)
    for version in (4, 5, 6):
        one.ask("several", "FindCoordinator", version, coordinator_keys=[group, "", "other"])
        one.ask("none", "FindCoordinator", version, coordinator_keys=[])
        one.ask("twice", "FindCoordinator", version, coordinator_keys=[group, group])
        for kind in (3, -1):
            one.ask(f"type {kind}", "FindCoordinator", version, coordinator_keys=[group, "x"], key_type=kind)
    for version in (4, 5):
        one.ask("type 2", "FindCoordinator", version, coordinator_keys=[group], key_type=2)
    one.ask("a share key that is none", "FindCoordinator", 6, coordinator_keys=[group], key_type=2)


def protocols(scene: Scene) -> None:
    group = scene.group("votes")
    members = [scene.member(f"m{number}") for number in range(3)]
    first = members[0]
    first.ask("an id", "JoinGroup", 9, **joining(group, names=("b", "a", "c")))
    leader = first.last["member_id"]
    first.ask("alone", "JoinGroup", 9, **joining(group, leader, names=("b", "a", "c")))
    for number, names in ((1, ("a", "c", "b")), (2, ("c", "a"))):
        members[number].ask(f"an id for {number}", "JoinGroup", 9, **joining(group, names=names))
        given = members[number].last["member_id"]
        members[number].send(f"{number} joins", "JoinGroup", 9, **joining(group, given, names=names))
        members[number].is_silent(f"{number} waits")
    first.ask("the leader joins", "JoinGroup", 9, **joining(group, leader, names=("b", "a", "c")))
    for member in members[1:]:
        member.hear()
    members[1].ask("nothing in common", "JoinGroup", 9, **joining(group, names=("b",)))
    members[1].ask("something in common", "JoinGroup", 9, **joining(group, names=("b", "c")))


SCENARIOS: dict[str, Scenario] = {
    "one member in every version": one_member_in_every_version,
    "two members": two_members,
    "static members": static_members,
    "illegal requests": illegal_requests,
    "listing and deleting": listing_and_deleting,
    "finding": finding,
    "protocols": protocols,
}
