"""Random walks through the states of consumer groups: all requests that members may send, right or wrong.

Each walk has a seed, so that both brokers get the same requests.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.verify.groups.group_scenarios import Scenario
from tests.verify.groups.group_talk import Talk
from tests.verify.groups.group_topics import Plain

WALK_STEPS = 60
WALKS = 20
MEMBERS = ("m1", "m2", "m3", "m4")


def random_walk(seed: int) -> Scenario:
    """Whatever members may come to say, right or wrong.

    Several topics are handed out by range: the others go by the order of topic ids, which are drawn at random.
    """

    def walk(talk: Talk) -> None:
        rng = random.Random(seed)
        topics = {"t": rng.randint(1, 7), "u": rng.randint(1, 4)}
        if seed % 2:
            del topics["u"]
        for name, partitions in topics.items():
            talk.topic(name, partitions)
        known: dict[str, Plain] = {}
        for _ in range(WALK_STEPS):
            _random_beat(talk, rng, known, list(topics))
            if rng.random() < 0.15:
                talk.describe("g")
        talk.describe("g")

    return walk


def _random_beat(
    talk: Talk,
    rng: random.Random,
    known: dict[str, Plain],
    topics: list[str],
    members: Sequence[str] = MEMBERS,
) -> None:
    member = rng.choice(members)
    last = known.get(member)
    joins = last is None or rng.random() < 0.05
    epoch = 0 if joins or last is None else last["epoch"]
    if rng.random() < 0.1:
        epoch = rng.choice([epoch - 1, epoch + 1, 1, 2, -1, -1])
    more: dict[str, object] = {}
    if epoch == 0 or rng.random() < 0.15:
        more["names"] = rng.sample(topics, rng.randint(1, len(topics)))
    if epoch != 0 and last is not None and rng.random() < 0.6:
        more["owned"] = last["assignment"]
    if len(topics) > 1:
        more["server_assignor"] = "range"
    elif rng.random() < 0.1:
        more["server_assignor"] = rng.choice(["range", "uniform"])
    answer = talk.beat("g", member, epoch, **more)  # type: ignore[arg-type]  # of several kinds
    if answer["error"] != "NONE" or epoch < 0:
        if (
            answer["error"] in ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND")
            or epoch == -1
        ):
            known.pop(member, None)
        return
    assignment = answer["assignment"]
    if assignment is None:
        assignment = last["assignment"] if last is not None else {}
    known[member] = {"epoch": answer["epoch"], "assignment": assignment}


def random_walk_of_both_kinds(seed: int) -> Scenario:
    """The same with members of the classic kind; one of the other kind always stays, and some are static."""

    def walk(talk: Talk) -> None:
        rng = random.Random(seed)
        talk.topic("t", rng.randint(1, 7))
        talk.beat("g", "anchor", 0, names=["t"])
        known: dict[str, Plain] = {"anchor": {"epoch": 1, "assignment": {}}}
        classic: dict[str, int] = {}
        for _ in range(WALK_STEPS):
            if rng.random() < 0.4:
                _random_beat(talk, rng, known, ["t"], ["m1", "m2"])
            elif rng.random() < 0.2:
                last = talk.beat("g", "anchor", known["anchor"]["epoch"], owned=known["anchor"]["assignment"])
                given = last["assignment"]
                assignment = known["anchor"]["assignment"] if given is None else given
                known["anchor"] = {"epoch": last["epoch"], "assignment": assignment}
            else:
                _random_classic(talk, rng, classic)
            if rng.random() < 0.15:
                talk.describe("g")
        talk.describe("g")

    return walk


def _random_classic(talk: Talk, rng: random.Random, known: dict[str, int]) -> None:
    member = rng.choice(["c1", "c2", "c3"])
    generation = known.get(member, 1)
    if rng.random() < 0.1:
        generation += rng.choice([-1, 1])
    what = rng.choice(["join", "join", "sync", "sync", "beat", "beat", "beat", "leave", "commit"])
    if what == "join" or member not in known:
        owned = {"t": rng.sample(range(7), rng.randint(0, 2))} if rng.random() < 0.5 else None
        protocols = rng.choice([("range",), ("range", "roundrobin"), ("sticky",)])
        answer = talk.join("g", member, ["t"], owned=owned, protocols=protocols)
        if answer["error"] == "NONE":
            known[member] = answer["generation"]
    elif what == "sync":
        talk.sync("g", member, generation)
    elif what == "beat":
        talk.classic_beat("g", member, generation)
    elif what == "commit":
        talk.commit("g", member, generation, "t", rng.randint(0, 9))
    elif rng.random() < 0.4:
        talk.leave("g", (member, None))
        known.pop(member, None)


RANDOM_WALKS: dict[str, Scenario] = {
    **{f"random_walk_{seed}": random_walk(seed) for seed in range(WALKS)},
    **{f"random_walk_of_both_kinds_{seed}": random_walk_of_both_kinds(seed) for seed in range(WALKS)},
}
