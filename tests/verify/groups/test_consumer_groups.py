"""Consumer groups of ours beside Apache Kafka's: every answer to the same requests, and the records in the log.

Both start fresh with the same settings; the scenarios of `group_scenarios.py` go to one and then to the other.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.base.errors import ErrorCode
from tests.coordinator.group.worlds.assign_world import answer, cases
from tests.verify.groups.group_migrations import MIGRATIONS
from tests.verify.groups.group_records import records_of
from tests.verify.groups.group_scenarios import RESOLVED_S
from tests.verify.groups.group_scenarios import SCENARIOS as TOLD
from tests.verify.groups.group_talk import Talk
from tests.verify.groups.group_topics import Plain
from tests.verify.groups.group_walks import RANDOM_WALKS
from tests.verify.nodes.broker_node import VERSION, apache_then_ours

SCENARIOS = {**TOLD, **MIGRATIONS, **RANDOM_WALKS}
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
}
# Apache Kafka's coordinators learn of topics one after the other.
APACHE_SETTLES_S = 0.2
OURS_SETTLES_S = 0.0
# Scenarios whose entries are compared too; in the others ids that a broker made up decide on their order.
IN_THE_LOG = tuple(name for name in SCENARIOS if name not in ("kinds_of_groups", "upgrade", "downgrade"))
PROBE = Path(__file__).parents[1] / "java" / "AssignProbe.java"
GROUP_LIFE = Path(__file__).parents[1] / "java" / "GroupLife.java"
HANDED_OVER = "handed."
SEEDS = range(3_000, 3_120)
LEAST_CASES = 300

Heard = list[tuple[str, Plain]]


class Lives(NamedTuple):
    """By scenario; `java` is what Apache Kafka's own consumers reported."""

    heard: dict[str, Heard]
    records: dict[str, list[Plain]]
    java: list[str]


class Both(NamedTuple):
    theirs: Lives
    ours: Lives
    # What the next one says on the folder of the one before: ours, Apache Kafka's on ours, ours on theirs.
    handed_over: list[list[Plain]]


def lives(oracle: Callable[..., Any], port: int, settles_s: float) -> Lives:
    address = ("127.0.0.1", port)
    heard: dict[str, Heard] = {}
    records: dict[str, list[Plain]] = {}
    for number, (name, scenario) in enumerate(SCENARIOS.items()):
        with Talk(address, f"s{number:03}.", settles_s) as talk:
            for group in ("g", "c", "k", "h"):
                talk.coordinator(group)
            scenario(talk)
            heard[name] = talk.heard
            if name in IN_THE_LOG:
                records[name] = records_of(address, talk, "g", int(SETTINGS["offsets.topic.num.partitions"]))
    done = oracle(VERSION, "java", str(GROUP_LIFE), f"127.0.0.1:{port}")
    assert done.returncode == 0, done.stderr[-3000:]
    return Lives(heard, records, done.stdout.splitlines())


def leave_behind(port: int) -> list[Plain]:
    """Groups of all kinds of members, in the midst of things."""
    with Talk(("127.0.0.1", port), HANDED_OVER) as talk:
        talk.topic("t", 6)
        for group in ("g", "c", "h"):
            talk.coordinator(group)
        talk.beat("g", "a", 0, names=["t"], instance_id="one", rack_id="r")
        talk.beat("g", "b", 0, names=["t"], server_assignor="range")
        talk.beat("g", "a", 1, instance_id="one")
        talk.join("g", "c", ["t"])
        talk.beat("g", "b", 2)
        talk.commit("g", "b", 3, "t", 7)
        talk.beat("c", "m", 0, names=["t"])
        talk.beat("c", "m", -1)
        talk.beat("h", "m", 0, regex=talk.prefix + ".*")
        time.sleep(RESOLVED_S)
        talk.beat("h", "m", 1)
    return seen(port)


def seen(port: int) -> list[Plain]:
    """The descriptions of the groups that were left behind; members continue where they were."""
    with Talk(("127.0.0.1", port), HANDED_OVER) as talk:
        talk.know("t")
        for group in ("g", "c", "h"):
            talk.coordinator(group)
        answers = [talk.describe(group) for group in ("g", "c", "h")]
        answers += [talk.beat("g", "a", 1, instance_id="one"), talk.beat("g", "b", 3)]
        answers += [talk.classic_beat("g", "c", 3), talk.classic_beat("g", "c", 2)]
        answers += [
            talk.beat("g", "b", 7),
            talk.fetch("g", None, -1, "t"),
            talk.listed("g"),
            talk.listed("h"),
        ]
        return answers


@pytest.fixture(scope="module")
def both(oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    home = tmp_path_factory.mktemp("groups") / "node"
    with apache_then_ours(oracle, home, SETTINGS, "--cluster-id", CLUSTER_ID) as (apache, ours):
        theirs = lives(oracle, ours.port, APACHE_SETTLES_S)
        apache.stop()
        shutil.rmtree(apache.data)
        ours.format(CLUSTER_ID)
        ours.start()
        found = lives(oracle, ours.port, OURS_SETTLES_S)
        descriptions = [leave_behind(ours.port)]
        ours.stop()
        apache.start()
        descriptions.append(seen(ours.port))
        apache.stop()
        ours.start()
        descriptions.append(seen(ours.port))
        ours.stop()
        assert ours.faults() == []
        yield Both(theirs, found, descriptions)


@pytest.mark.parametrize("name", SCENARIOS)
def test_answers_are_equal(both: Both, name: str) -> None:
    theirs, ours = both.theirs.heard[name], both.ours.heard[name]
    differences = [
        f"{number}. {one[0]}: {one[1]} -> {other[1]}"
        for number, (one, other) in enumerate(zip(theirs, ours, strict=False))
        if one != other
    ]
    assert not differences, "Apache Kafka's -> ours\n" + "\n".join(differences[:5])
    assert len(theirs) == len(ours)


def test_many_kinds_of_refusals_were_seen(both: Both) -> None:
    errors = {response.get("error") for heard in both.ours.heard.values() for _, response in heard}
    assert errors >= {
        code.name
        for code in (
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.MEMBER_ID_REQUIRED,
            ErrorCode.NON_EMPTY_GROUP,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.STALE_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.UNRELEASED_INSTANCE_ID,
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            ErrorCode.UNSUPPORTED_VERSION,
        )
    }


@pytest.mark.parametrize("name", IN_THE_LOG)
def test_the_log_says_the_same(both: Both, name: str) -> None:
    theirs, ours = both.theirs.records[name], both.ours.records[name]
    assert len(theirs) > 10
    assert ours == theirs


def test_apache_kafkas_own_consumers_get_the_same(both: Both) -> None:
    assert len(both.theirs.java) > 20
    assert both.ours.java == both.theirs.java


def test_each_goes_on_with_the_groups_of_the_other(both: Both) -> None:
    first, theirs, again = both.handed_over
    assert theirs == first
    assert again == first


def test_targets_and_hashes_are_those_of_apache_kafkas_classes(oracle: Callable[..., Any]) -> None:
    asked = [case for seed in SEEDS for case in cases(seed)]
    assert len(asked) >= LEAST_CASES
    done = oracle(VERSION, "java", str(PROBE), stdin="\n".join(map(json.dumps, asked)))
    assert done.returncode == 0, done.stderr[-3000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for case, expected in zip(asked, answers, strict=True):
        found = answer(case)
        # Who owns nothing may be left out.
        targets = {member: {} for member in found["targets"]} | expected["targets"]
        assert found["targets"] == targets, case
        assert found["written"] == sorted(expected["written"]), case
        assert (found["hashes"], found["hash"]) == (expected["hashes"], expected["hash"]), case
