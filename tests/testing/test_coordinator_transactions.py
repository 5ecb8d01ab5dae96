"""Transactions in the simulator: many seeds pass, and every bug planted in their coordinator is found."""

from __future__ import annotations

import pytest

from barnabas.testing.simulation.registry import PLANTED, SCENARIOS, load_all
from barnabas.testing.simulation.runner import hunt_bug, play, play_or_raise
from tests.testing.seeds import chunk_name, chunks

load_all()
SCENARIO = SCENARIOS["coordinator-transactions"]
BUGS = [bug.name for bug in PLANTED.values() if bug.scenario == SCENARIO.name]


@pytest.mark.parametrize("seeds", chunks(50), ids=chunk_name)
def test_transactions_are_visible_entirely_or_not_at_all(seeds: range) -> None:
    for seed in seeds:
        play_or_raise(SCENARIO, seed)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    hunt_bug(PLANTED[name])


def test_there_are_ten_of_them() -> None:
    assert len(BUGS) >= 10


def test_the_same_seed_gives_the_same_trace() -> None:
    assert play(SCENARIO, 3).digest == play(SCENARIO, 3).digest
