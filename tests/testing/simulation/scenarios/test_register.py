"""The world's own scenario: it passes, and its planted bugs are found."""

from __future__ import annotations

import pytest

from barnabas.testing.simulation.registry import PLANTED, SCENARIOS, load_all
from barnabas.testing.simulation.runner import hunt_bug, play
from tests.testing.seeds import chunk_name, chunks

load_all()
BUGS = [bug.name for bug in PLANTED.values() if bug.scenario == "register"]


@pytest.mark.parametrize("seeds", chunks(100), ids=chunk_name)
def test_no_acknowledged_value_is_lost(seeds: range) -> None:
    for seed in seeds:
        outcome = play(SCENARIOS["register"], seed)
        assert outcome.error is None, f"seed {seed}"
        assert outcome.events > 100


@pytest.mark.parametrize("name", BUGS)
def test_every_planted_bug_is_found(name: str) -> None:
    hunt_bug(PLANTED[name])


def test_there_are_planted_bugs() -> None:
    assert len(BUGS) >= 7
