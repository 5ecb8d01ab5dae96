"""Lives of groups with members of both protocols, and of groups that change theirs, request by request."""

from __future__ import annotations

import time

from tests.verify.groups.group_scenarios import Scenario, settle
from tests.verify.groups.group_talk import Talk

COMMITTED_S = 0.2


def kinds_of_groups(talk: Talk) -> None:
    """What one kind says to the other's requests, and empty groups that change their kind."""
    talk.topic("t", 2)
    first = talk.join("c", "", ["t"])
    joined = talk.join("c", first["raw"], ["t"])
    talk.sync("c", first["raw"], joined["generation"], assignments={first["raw"]: {"t": [0, 1]}})
    talk.beat("c", "m", 1)
    talk.beat("c", first["raw"], -1)
    talk.describe("c")
    talk.leave("c", (first["raw"], None))
    talk.describe_classic("c")
    talk.beat("c", "m", 1)
    talk.beat("c", "m", 0, names=["t"])
    talk.describe_classic("c")
    talk.listed("c")
    talk.beat("c", "m", -1)
    talk.describe("c")
    talk.listed("c")
    again = talk.join("c", "", ["t"])
    # It must rejoin before its change is committed.
    time.sleep(COMMITTED_S)
    talk.listed("c")
    talk.describe("c")
    again = talk.join("c", again["raw"], ["t"])
    talk.listed("c")
    talk.join("c", "", ["t"], protocol_type="connect")
    # A group that is no consumers' cannot be changed.
    other = talk.join("k", "", ["t"], protocol_type="connect")
    talk.join("k", other["raw"], ["t"], protocol_type="connect")
    talk.beat("k", "m", 0, names=["t"])


def upgrade(talk: Talk) -> None:
    talk.topic("t", 4)
    a = talk.join("g", "", ["t"])["raw"]
    joined = talk.join("g", a, ["t"])
    talk.sync("g", a, joined["generation"], assignments={a: {"t": [0, 1, 2, 3]}})
    talk.commit("g", a, joined["generation"], "t", 5)
    # Range goes by member ids, and those that a broker makes up come last.
    talk.beat("g", "m", 0, names=["t"], server_assignor="range")
    talk.listed("g")
    talk.describe("g")
    talk.commit("g", a, 1, "t", 6)
    talk.commit("g", a, 2, "t", 6)
    talk.sync("g", a, 1)
    talk.classic_beat("g", a, 1)
    talk.classic_beat("g", a, 2)
    talk.classic_beat("g", "m", 2)
    talk.join("g", a, ["t"], owned={"t": [0, 1, 2, 3]})
    talk.describe("g")
    talk.sync("g", a, 1)
    talk.classic_beat("g", a, 1)
    talk.beat("g", "m", 2)
    talk.join("g", a, ["t"], owned={"t": [0, 1]})
    talk.sync("g", a, 2)
    talk.sync("g", a, 2, protocol="roundrobin")
    talk.sync("g", a, 2, protocol_type="connect")
    talk.classic_beat("g", a, 2)
    talk.beat("g", "m", 2)
    talk.describe("g")
    talk.fetch("g", None, -1, "t")
    talk.join("g", "", ["t"], protocols=("sticky",))
    talk.join("g", "", ["t"])
    talk.join("g", "b", ["t"])
    talk.describe("g")
    talk.classic_beat("g", a, 2)
    talk.leave("g", (a, None), ("nobody", None), ("", "nothing"))
    talk.leave("g", ("b", None))
    talk.describe("g")
    settle(talk, "g", ["m"])
    talk.describe("g")


def downgrade(talk: Talk) -> None:
    talk.topic("t", 2)
    talk.beat("g", "m", 0, names=["t"])
    a = talk.join("g", "", ["t"])["raw"]
    talk.join("g", a, ["t"])
    talk.describe("g")
    talk.beat("g", "m", 1, owned={"t": [0]})
    talk.classic_beat("g", a, 2)
    joined = talk.join("g", a, ["t"])
    talk.sync("g", a, joined["generation"])
    talk.commit("g", a, joined["generation"], "t", 3)
    talk.beat("g", "m", -1)
    talk.listed("g")
    talk.describe_classic("g")
    talk.classic_beat("g", a, 2)
    talk.classic_beat("g", a, 3)
    joined = talk.join("g", a, ["t"])
    talk.sync("g", a, joined["generation"], assignments={a: {"t": [0, 1]}})
    talk.describe_classic("g")
    talk.fetch("g", None, -1, "t")
    talk.beat("g", "m", 0, names=["t"])
    talk.listed("g")


def downgrade_by_static_member(talk: Talk) -> None:
    talk.topic("t", 2)
    talk.beat("g", "m", 0, names=["t"], instance_id="one")
    joined = talk.join("g", "", ["t"], instance="one")
    talk.listed("g")
    talk.describe_classic("g")
    talk.sync("g", joined["raw"], joined["generation"], instance="one")
    talk.beat("g", "m", 1, instance_id="one")
    talk.beat("g", "n", 0, names=["t"], instance_id="one")
    talk.listed("g")
    talk.describe("g")


def static_members_of_both_kinds(talk: Talk) -> None:
    talk.topic("t", 4)
    talk.beat("g", "m", 0, names=["t"], instance_id="one")
    talk.beat("g", "n", 0, names=["t"], instance_id="two")
    talk.beat("g", "m", 1, owned={"t": [0, 1]}, instance_id="one")
    talk.beat("g", "n", 2, instance_id="two")
    first = talk.join("g", "", ["t"], instance="one")
    talk.describe("g")
    talk.sync("g", first["raw"], first["generation"], instance="one")
    talk.sync("g", "m", first["generation"], instance="one")
    talk.sync("g", first["raw"], first["generation"], instance="none")
    talk.classic_beat("g", first["raw"], first["generation"], "one")
    talk.join("g", "other", ["t"], instance="one")
    talk.join("g", "other", ["t"], instance="new")
    talk.beat("g", "p", 0, names=["t"], instance_id="one")
    talk.describe("g")
    talk.leave("g", ("", "one"), ("wrong", "two"))
    talk.describe("g")


MIGRATIONS: dict[str, Scenario] = {
    one.__name__: one
    for one in (
        kinds_of_groups,
        upgrade,
        downgrade,
        downgrade_by_static_member,
        static_members_of_both_kinds,
    )
}
