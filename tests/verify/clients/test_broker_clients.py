"""Real clients against Apache Kafka and against barnabas: the same steps have the same outcomes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.verify.answers.broker_scenarios import SCENARIOS, Outcomes
from tests.verify.nodes.broker_node import VERSION, apache_then_ours

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
# Records of the scenarios are old on purpose: their times are fixed.
SETTINGS = {"log.retention.ms": "-1"}
JAVA = "Apache Kafka's own"
JAVA_LIFE = Path(__file__).parents[1] / "java" / "ClientLife.java"


@pytest.fixture(scope="module")
def outcomes(
    oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[Outcomes, Outcomes]]]:
    """Client -> Apache Kafka's outcomes and ours."""
    home = tmp_path_factory.mktemp("clients") / "node"
    with apache_then_ours(oracle, home, SETTINGS, "--cluster-id", CLUSTER_ID) as (apache, ours):
        theirs = lives(oracle, ours.bootstrap)
        apache.stop()
        shutil.rmtree(apache.data)
        ours.format(CLUSTER_ID)
        ours.start()
        found = lives(oracle, ours.bootstrap)
        ours.stop()
        assert ours.faults() == []
        yield {name: (theirs[name], found[name]) for name in theirs}


def lives(oracle: Callable[..., Any], bootstrap: str) -> dict[str, Outcomes]:
    """Apache Kafka's client first, as it counts all topics, also those that other clients bring about."""
    return {
        JAVA: java_life(oracle, bootstrap),
        **{name: scenario(bootstrap) for name, scenario in SCENARIOS.items()},
    }


def java_life(oracle: Callable[..., Any], bootstrap: str) -> Outcomes:
    done = oracle(VERSION, "java", str(JAVA_LIFE), bootstrap)
    assert done.returncode == 0, done.stderr[-4000:]
    return [(line.split("\t")[0], line.split("\t", 1)[1]) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("client", [*SCENARIOS, JAVA])
def test_outcomes_are_equal(outcomes: dict[str, tuple[Outcomes, Outcomes]], client: str) -> None:
    theirs, ours = outcomes[client]
    assert [title for title, _ in ours] == [title for title, _ in theirs]
    differences = [
        f"{title}: {one!r} -> {other!r}"
        for (title, one), (_, other) in zip(theirs, ours, strict=True)
        if one != other
    ]
    assert not differences, "Apache Kafka's -> ours\n" + "\n".join(differences)
