"""Consumer groups of ours beside Apache Kafka's: every answer to the same requests, and the records in the log.

Both start fresh with the same settings; the scenarios of `group_scenarios.py` go to one and then to the other.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.base.errors import ErrorCode
from tests.coordinator.group.assign_world import answer, cases
from tests.verify.broker_node import VERSION, apache_then_ours
from tests.verify.group_records import records_of
from tests.verify.group_scenarios import SCENARIOS
from tests.verify.group_talk import Plain, Talk

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
# Apache Kafka's coordinators learn of topics one after the other.
APACHE_SETTLES_S = 0.2
OURS_SETTLES_S = 0.0
# Scenarios whose entries are compared too; in the others ids that a broker made up decide on their order.
IN_THE_LOG = tuple(name for name in SCENARIOS if name not in ("kinds_of_groups", "upgrade", "downgrade"))
PROBE = Path(__file__).parent / "java" / "AssignProbe.java"
SEEDS = range(3_000, 3_120)
LEAST_CASES = 300

Heard = list[tuple[str, Plain]]


class Lives(NamedTuple):
    """By scenario."""

    heard: dict[str, Heard]
    records: dict[str, list[Plain]]


def lives(port: int, settles_s: float) -> Lives:
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
    return Lives(heard, records)


@pytest.fixture(scope="module")
def both(
    oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Lives, Lives]]:
    """Apache Kafka's and ours."""
    home = tmp_path_factory.mktemp("groups") / "node"
    with apache_then_ours(oracle, home, SETTINGS, "--cluster-id", CLUSTER_ID) as (apache, ours):
        theirs = lives(ours.port, APACHE_SETTLES_S)
        apache.stop()
        shutil.rmtree(apache.data)
        ours.format(CLUSTER_ID)
        ours.start()
        found = lives(ours.port, OURS_SETTLES_S)
        ours.stop()
        assert ours.faults() == []
        yield theirs, found


@pytest.mark.parametrize("name", SCENARIOS)
def test_answers_are_equal(both: tuple[Lives, Lives], name: str) -> None:
    theirs, ours = both[0].heard[name], both[1].heard[name]
    differences = [
        f"{number}. {one[0]}: {one[1]} -> {other[1]}"
        for number, (one, other) in enumerate(zip(theirs, ours, strict=False))
        if one != other
    ]
    assert not differences, "Apache Kafka's -> ours\n" + "\n".join(differences[:5])
    assert len(theirs) == len(ours)


def test_many_kinds_of_refusals_were_seen(both: tuple[Lives, Lives]) -> None:
    errors = {told.get("error") for heard in both[1].heard.values() for _, told in heard}
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
def test_the_log_says_the_same(both: tuple[Lives, Lives], name: str) -> None:
    theirs, ours = both[0].records[name], both[1].records[name]
    assert len(theirs) > 10
    assert ours == theirs


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
