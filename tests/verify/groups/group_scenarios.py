"""Scenarios of consumer groups, request by request: the same requests go to Apache Kafka and to our broker.

One function per scenario; `group_talk.py` builds the requests.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.verify.groups.group_talk import Talk

Scenario = Callable[[Talk], None]

# Patterns are resolved apart from the heartbeat that brought them.
RESOLVED_S = 0.5


def joins_and_splits(talk: Talk) -> None:
    talk.topic("t", 5)
    talk.beat("g", "m1", 0, names=["t"])
    talk.describe("g")
    talk.listed("g")
    talk.beat("g", "m1", 1)
    talk.beat("g", "m1", 1, owned={"t": [0, 1, 2, 3, 4]})
    talk.beat("g", "m2", 0, names=["t"])
    talk.describe("g")
    talk.beat("g", "m2", 2)
    talk.beat("g", "m1", 1)
    talk.describe("g")
    talk.beat("g", "m1", 1, owned={"t": [0, 1, 2, 3, 4]})
    talk.beat("g", "m1", 1, owned={"t": [0, 1, 2]})
    talk.describe("g")
    talk.beat("g", "m2", 2)
    talk.beat("g", "m2", 2)
    talk.describe("g")
    for number in range(3, 8):
        talk.beat("g", f"m{number}", 0, names=["t"])
    talk.describe("g")
    talk.beat("g", "m1", 2, owned={"t": [0, 1, 2]})
    talk.beat("g", "m1", 2, owned={})
    talk.beat("g", "m2", 2, owned={})
    for number in range(1, 8):
        talk.beat("g", f"m{number}", 7)
    talk.describe("g")
    talk.beat("g", "m3", -1)
    talk.describe("g")
    for number in (1, 2, 4, 5, 6, 7):
        talk.beat("g", f"m{number}", 7)
        talk.beat("g", f"m{number}", -1)
    talk.describe("g")
    talk.listed("g")


def illegal_requests(talk: Talk) -> None:
    talk.topic("t", 2)
    talk.beat("g", "m", 1)
    talk.beat("g", "m", -1)
    talk.beat("g", "m", -2, instance_id="i")
    talk.beat("g", "m", -2)
    talk.beat("g", "m", -3)
    talk.beat("g", "", 0, names=["t"])
    talk.beat("g", " ", 0, names=["t"])
    talk.beat("g", "", 1, version=0)
    talk.beat("g", "", -1, version=0)
    talk.beat("", "m", 0, names=["t"])
    talk.beat("g", "m", 0, names=["t"], instance_id="")
    talk.beat("g", "m", 0, names=["t"], rack_id="  ")
    talk.beat("g", "m", 0, names=["t"], rebalance_timeout_ms=-1)
    talk.beat("g", "m", 0, names=["t"], owned={"t": [0]})
    talk.beat("g", "m", 0)
    talk.beat("g", "m", 0, names=["t"], server_assignor="sticky")
    talk.beat("g", "m", 0, names=["t"], server_assignor="")
    talk.beat("g", "m", 1, server_assignor="nothing")
    talk.beat("g", "m", 0, regex="[", names=["t"])
    talk.describe("g")
    talk.describe("")
    talk.listed("g")
    talk.beat("g", "m", 0, names=[])
    talk.beat("g", "m", 0, names=["t"])
    talk.beat("g", "m", 1, names=["t"])
    talk.beat("g", "m", 5)
    talk.beat("g", "m", 2)
    talk.beat("g", "other", 2)
    talk.beat("g", "other", -1)
    talk.beat("g", "m", 2, instance_id="i")
    talk.beat("g", "other", 2, instance_id="i")
    talk.beat("g", "m", -1, instance_id="unknown")
    talk.beat("g", "m", 2, names=["no-such-topic"])
    talk.beat("g", "m", 3, names=["t"])
    talk.describe("g")
    talk.delete("g")
    talk.classic_beat("g", "m", 4)
    talk.sync("g", "m", 4)
    talk.leave("g", ("nobody", None), ("nobody", "nothing"))
    talk.beat("g", "", 0, names=["t"], version=0)
    talk.describe("g", version=0)


def epochs(talk: Talk) -> None:
    talk.topic("t", 3)
    talk.topic("u", 1)
    talk.beat("g", "m", 0, names=["t"])
    talk.beat("g", "m", 1, names=["t", "u"])
    # The last answer was lost: one epoch behind, with nothing that it should not have.
    talk.beat("g", "m", 1)
    talk.beat("g", "m", 1, owned={"t": [0]})
    talk.beat("g", "m", 1, owned={"t": [0, 7]})
    talk.beat("g", "m", 1, owned={"no-such": [0]})
    talk.beat("g", "m", 0, names=["t", "u"])
    talk.beat("g", "m", 2, names=["u"])
    talk.beat("g", "m", 2, owned={"u": [0]})
    talk.beat("g", "m", 3, names=["u"], owned={"u": [0]}, rebalance_timeout_ms=1000)
    talk.beat("g", "m", 2, owned={"u": [0]})
    talk.describe("g")
    talk.beat("g", "m", 3, names=["u"], owned={"u": [0]}, rebalance_timeout_ms=1000, rack_id="r")
    talk.beat("g", "m", 3, server_assignor="range")
    talk.describe("g")
    talk.beat("g", "m", 0, names=["t", "u"])
    talk.beat("g", "m", -1)
    talk.beat("g", "m", 0, names=["t", "u"])
    talk.describe("g")


def static_members(talk: Talk) -> None:
    talk.topic("t", 4)
    talk.beat("g", "a", 0, names=["t"], instance_id="one")
    talk.beat("g", "b", 0, names=["t"], instance_id="two")
    talk.beat("g", "a", 1, owned={"t": [0, 1]}, instance_id="one")
    talk.beat("g", "b", 2, instance_id="two")
    talk.describe("g")
    talk.beat("g", "c", 0, names=["t"], instance_id="one")
    talk.beat("g", "c", 2, instance_id="one")
    talk.beat("g", "c", -2, instance_id="one")
    talk.beat("g", "a", -2, instance_id="three")
    talk.beat("g", "a", -2, instance_id="one")
    talk.describe("g")
    talk.beat("g", "a", 2, instance_id="one")
    talk.beat("g", "c", 0, names=["t"], instance_id="one")
    talk.describe("g")
    talk.beat("g", "a", 2, instance_id="one")
    talk.beat("g", "a", 2)
    talk.beat("g", "c", 2, instance_id="one")
    talk.beat("g", "b", 2, instance_id="two")
    talk.beat("g", "b", -2, instance_id="two")
    talk.beat("g", "d", 0, names=["t"], instance_id="two", server_assignor="range")
    talk.beat("g", "d", -1)
    talk.describe("g")
    talk.beat("g", "c", -1, instance_id="one")
    talk.beat("g", "c", 0, names=["t"], instance_id="one")
    talk.describe("g")


def static_members_change(talk: Talk) -> None:
    """One comes back in the midst of a rebalance, and with another subscription."""
    talk.topic("t", 4)
    talk.topic("u", 2)
    talk.beat("g", "a", 0, names=["t"], instance_id="one")
    talk.beat("g", "b", 0, names=["t"], instance_id="two")
    talk.beat("g", "a", -2, instance_id="one")
    talk.describe("g")
    talk.beat("g", "c", 0, names=["t", "u"], instance_id="one")
    talk.describe("g")
    talk.beat("g", "c", 3, owned={"t": [0, 1], "u": [0]}, instance_id="one")
    talk.beat("g", "b", 2, instance_id="two")
    talk.beat("g", "b", 3, instance_id="two")
    talk.describe("g")


def subscriptions(talk: Talk) -> None:
    for name, partitions in (("t", 4), ("u", 3), ("v", 1)):
        talk.topic(name, partitions)
    talk.beat("g", "m1", 0, names=["t", "u"], server_assignor="range")
    talk.beat("g", "m2", 0, names=["u", "v"])
    talk.beat("g", "m3", 0, names=["v", "no-such-topic"])
    talk.describe("g")
    settle(talk, "g", ["m1", "m2", "m3"])
    talk.beat("g", "m3", 3, names=["t"])
    talk.describe("g")
    settle(talk, "g", ["m1", "m2", "m3"])
    talk.beat("g", "m1", 4, names=[])
    settle(talk, "g", ["m1", "m2", "m3"])
    talk.describe("g")
    talk.topic("no-such-topic", 2)
    talk.beat("g", "m2", 5, names=["no-such-topic"])
    settle(talk, "g", ["m1", "m2", "m3"])
    talk.describe("g")


def topics_change(talk: Talk) -> None:
    # M-G2
    talk.topic("t", 2)
    talk.topic("u", 2)
    talk.beat("g", "m1", 0, names=["t", "u"], server_assignor="range")
    talk.beat("g", "m2", 0, names=["t", "u"])
    settle(talk, "g", ["m1", "m2"])
    talk.more_partitions("t", 5)
    talk.beat("g", "m1", 2)
    talk.describe("g")
    settle(talk, "g", ["m1", "m2"])
    talk.describe("g")
    talk.delete_topic("u")
    talk.beat("g", "m2", 3)
    talk.describe("g")
    settle(talk, "g", ["m1", "m2"])
    talk.describe("g")
    talk.topic("u", 1)
    settle(talk, "g", ["m1", "m2"])
    talk.describe("g")


def assignors(talk: Talk) -> None:
    talk.topic("t", 7)
    talk.beat("g", "m1", 0, names=["t"], server_assignor="range")
    talk.beat("g", "m2", 0, names=["t"])
    settle(talk, "g", ["m1", "m2"])
    talk.describe("g")
    # As many for the one as for the other.
    talk.beat("g", "m2", 2, server_assignor="uniform")
    talk.describe("g")
    talk.beat("g", "m1", 2, names=[])
    talk.beat("g", "m1", 3, names=["t"])
    talk.describe("g")
    talk.beat("g", "m3", 0, names=["t"], server_assignor="uniform")
    talk.describe("g")
    settle(talk, "g", ["m1", "m2", "m3"])
    talk.beat("g", "m4", 0, names=["t"], server_assignor="range")
    talk.describe("g")
    talk.beat("g", "m2", -1)
    settle(talk, "g", ["m1", "m3", "m4"])


def patterns(talk: Talk) -> None:
    for name in ("t1", "t2", "x"):
        talk.topic(name, 2)
    pattern = talk.prefix + "t.*"
    talk.beat("g", "m1", 0, regex=pattern, server_assignor="range")
    time.sleep(RESOLVED_S)
    talk.describe("g")
    talk.beat("g", "m1", 1)
    talk.beat("g", "m1", 2)
    talk.describe("g")
    talk.beat("g", "m2", 0, regex=pattern)
    talk.describe("g")
    settle(talk, "g", ["m1", "m2"])
    talk.describe("g")
    talk.beat("g", "m2", 3, names=["x"], regex="")
    settle(talk, "g", ["m1", "m2"])
    talk.describe("g")
    talk.beat("g", "m1", 4, regex="(")
    talk.beat("g", "m1", 4, regex="a**")
    talk.beat("g", "m1", 4, regex="\\")
    talk.beat("g", "m1", 4, regex="(?=a)b")
    talk.beat("g", "m1", 4, regex="x{2000}")
    talk.beat("g", "m1", 4, regex="")
    talk.beat("g", "m1", 4, names=["x"], regex=pattern)
    talk.describe("g")
    talk.beat("g", "m1", -1)
    talk.describe("g")
    talk.beat("h", "m1", 0, names=["x"], regex=pattern)
    time.sleep(RESOLVED_S)
    talk.beat("h", "m1", 1)
    talk.describe("h")


def offsets_are_fenced(talk: Talk) -> None:
    talk.topic("t", 2)
    talk.commit("g", "", -1, "t", 1)
    talk.listed("g")
    talk.beat("g", "m", 0, names=["t"])
    talk.listed("g")
    talk.describe_classic("g")
    talk.commit("g", "", -1, "t", 1)
    talk.commit("g", "m", 1, "t", 2)
    talk.commit("g", "m", 1, "t", 2, version=8)
    talk.commit("g", "m", 0, "t", 2)
    talk.commit("g", "m", 2, "t", 2)
    talk.commit("g", "other", 1, "t", 2)
    talk.fetch("g", "m", 1, "t")
    talk.fetch("g", "m", 2, "t")
    talk.fetch("g", "m", 0, "t")
    talk.fetch("g", "other", 1, "t")
    talk.fetch("g", None, -1, "t")
    talk.beat("g", "n", 0, names=["t"])
    talk.commit("g", "m", 1, "t", 3)
    talk.beat("g", "m", 1, owned={"t": [0]})
    talk.commit("g", "m", 1, "t", 4)
    talk.commit("g", "m", 2, "t", 4)
    talk.delete("g")
    talk.beat("g", "m", -1)
    talk.beat("g", "n", -1)
    talk.commit("g", "", -1, "t", 9)
    talk.fetch("g", None, -1, "t")
    talk.delete("g")
    talk.describe("g")
    talk.fetch("g", None, -1, "t")


def settle(talk: Talk, group: str, members: list[str]) -> None:
    """Let members give up and take over until nothing changes any more."""
    owned: dict[str, dict[str, list[int]]] = {}
    described = talk.describe(group)
    for _ in range(6):
        for one in described["members"]:
            if one["member"] in members:
                owned[one["member"]] = one["assignment"]
        before = described
        for member in members:
            epoch = next(one["epoch"] for one in described["members"] if one["member"] == member)
            answer = talk.beat(group, member, epoch, owned=owned[member])
            if answer["assignment"] is not None:
                owned[member] = answer["assignment"]
                talk.beat(group, member, answer["epoch"], owned=owned[member])
        described = talk.describe(group)
        if described == before:
            return


SCENARIOS: dict[str, Scenario] = {
    one.__name__: one
    for one in (
        joins_and_splits,
        illegal_requests,
        epochs,
        static_members,
        static_members_change,
        subscriptions,
        topics_change,
        assignors,
        patterns,
        offsets_are_fenced,
    )
}
