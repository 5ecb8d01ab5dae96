"""Controllers on a simulated ensemble: seeds pass, planted bugs are found."""

from __future__ import annotations

import pytest

from barnabas.testing.simulation.registry import PLANTED, SCENARIOS, load_all
from barnabas.testing.simulation.runner import hunt_bug, play, play_or_raise
from tests.testing.seeds import chunk_name, chunks, digest_in_another_process

load_all()
SCENARIO = "zookeeper-controller"
SEEDS = 500
BUGS = [bug.name for bug in PLANTED.values() if bug.scenario == SCENARIO]


@pytest.mark.parametrize("seeds", chunks(25, SEEDS), ids=chunk_name)
def test_one_controller_at_a_time_and_everything_done_in_the_end(seeds: range) -> None:
    # M-B3, M-B4, M-B5, M-B6: sessions expire, answers are lost, the ensemble changes its leader
    for seed in seeds:
        play_or_raise(SCENARIOS[SCENARIO], seed)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    hunt_bug(PLANTED[name])


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    digest = play(SCENARIOS[SCENARIO], 3).digest
    assert digest_in_another_process(SCENARIO, 3) == digest
