"""Classic groups: every answer of a broker of ours beside Apache Kafka's, to the same members' requests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.verify.answers.broker_answers import differences
from tests.verify.answers.broker_ask import Plain, RawClient
from tests.verify.answers.classic_scenarios import SCENARIOS
from tests.verify.answers.classic_talk import Scene
from tests.verify.nodes.broker_node import apache_then_ours

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
SETTLES_S = 0.5


@dataclass(frozen=True)
class Heard:
    theirs: dict[str, dict[str, Plain]]
    ours: dict[str, dict[str, Plain]]
    faults: list[str]


@pytest.fixture(scope="module")
def heard(oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heard]:
    home = tmp_path_factory.mktemp("classic") / "node"
    with apache_then_ours(oracle, home, SETTINGS, "--cluster-id", CLUSTER_ID) as (apache, ours):
        theirs = responses_at(ours.port)
        apache.stop()
        shutil.rmtree(apache.data)
        ours.format(CLUSTER_ID)
        ours.start()
        own = responses_at(ours.port)
        ours.stop()
        yield Heard(theirs, own, ours.faults())


def responses_at(port: int) -> dict[str, dict[str, Plain]]:
    raw_client = RawClient(port, SETTLES_S)
    topics = [{"name": name, "num_partitions": 2, "replication_factor": 1} for name in ("letters", "digits")]
    raw_client.one("CreateTopics", 7, topics=topics, timeout_ms=10_000)
    raw_client.close()
    found = {}
    for name, scenario in SCENARIOS.items():
        with Scene(port, name.replace(" ", "-")) as scene:
            scenario(scene)
            found[name] = scene.heard
    return found


@pytest.mark.parametrize("name", SCENARIOS)
def test_answers_are_equal(heard: Heard, name: str) -> None:
    theirs, ours = heard.theirs[name], heard.ours[name]
    found = [f"{title}: {line}" for title in theirs for line in differences(theirs[title], ours.get(title))]
    assert not found, "Apache Kafka's -> ours\n" + "\n".join(found)
    assert list(theirs) == list(ours)


def test_there_are_hundreds_of_answers_and_many_errors_among_them(heard: Heard) -> None:
    answers = [answer for scenario in heard.theirs.values() for answer in scenario.values()]
    assert len(answers) >= 400
    codes = {answer.get("error_code", 0) for answer in answers if isinstance(answer, dict)}
    assert len(codes) >= 10


def test_no_request_makes_our_broker_fail_inside(heard: Heard) -> None:
    assert heard.faults == []
