"""The metadata log in the simulator: seeds pass, power may fail at every step, planted bugs are found."""

from __future__ import annotations

import pytest

from barnabas.testing.simulation.registry import PLANTED, SCENARIOS, load_all
from barnabas.testing.simulation.runner import hunt_bug, play, play_or_raise
from tests.testing.seeds import chunk_name, chunks

load_all()
BUGS = [bug.name for bug in PLANTED.values() if bug.scenario in ("metadata-life", "metadata-administration")]


@pytest.mark.parametrize("seeds", chunks(20), ids=chunk_name)
def test_committed_records_survive(seeds: range) -> None:
    # M-E4, M-E5
    for seed in seeds:
        play_or_raise(SCENARIOS["metadata-life"], seed)


@pytest.mark.parametrize("seeds", chunks(50), ids=chunk_name)
def test_power_may_fail_at_every_step(seeds: range) -> None:
    # M-E4
    for seed in seeds:
        play_or_raise(SCENARIOS["metadata-power-loss"], seed)


@pytest.mark.parametrize("seeds", chunks(20, 60), ids=chunk_name)
def test_what_an_administrator_asks_for_is_committed_or_refused(seeds: range) -> None:
    # M-E4
    for seed in seeds:
        play_or_raise(SCENARIOS["metadata-administration"], seed)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    hunt_bug(PLANTED[name])


def test_there_are_twelve_of_them() -> None:
    assert len(BUGS) == 12


def test_the_same_seed_gives_the_same_trace() -> None:
    scenario = SCENARIOS["metadata-life"]
    assert play(scenario, 3).digest == play(scenario, 3).digest
