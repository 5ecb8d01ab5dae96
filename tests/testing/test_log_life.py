"""The life of logs in the simulator: many seeds pass, and every planted bug is found."""

from __future__ import annotations

import pytest

from barnabas.testing.simulation.registry import PLANTED, SCENARIOS, load_all
from barnabas.testing.simulation.runner import hunt_bug, play, play_or_raise

load_all()
SEEDS = 60
# Those that take more seeds are left to `make sim`.
QUICK_SEEDS = 120
BUGS = [bug for bug in PLANTED.values() if bug.scenario == "log-life" and bug.within_seeds <= QUICK_SEEDS]


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_what_was_flushed_survives(first: int) -> None:
    # M-E4, M-E5
    for seed in range(first, first + 10):
        play_or_raise(SCENARIOS["log-life"], seed)


@pytest.mark.parametrize("name", [bug.name for bug in BUGS])
def test_a_planted_bug_is_found(name: str) -> None:
    hunt_bug(PLANTED[name])


def test_there_are_ten_of_them() -> None:
    assert len(BUGS) >= 10


def test_the_same_seed_gives_the_same_trace() -> None:
    scenario = SCENARIOS["log-life"]
    assert play(scenario, 3).digest == play(scenario, 3).digest
