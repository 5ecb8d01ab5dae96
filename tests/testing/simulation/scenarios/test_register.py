"""The world's own scenario: it passes, its planted bugs are found."""

from __future__ import annotations

import pytest

from barnabas.testing.simulation.registry import PLANTED, SCENARIOS, load_all
from barnabas.testing.simulation.runner import hunt_bug, play

load_all()
BUGS = [bug for bug in PLANTED.values() if bug.scenario == "register"]


def test_no_acknowledged_value_is_lost() -> None:
    for seed in range(60):
        outcome = play(SCENARIOS["register"], seed)
        assert outcome.error is None, f"seed {seed}"
        assert outcome.events > 100


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_every_planted_bug_is_found(bug: object) -> None:
    hunt_bug(bug)  # type: ignore[arg-type]


def test_there_are_planted_bugs() -> None:
    assert len(BUGS) >= 7
