"""A few replicated partitions over single messages in the simulator: many seeds pass, planted bugs are found."""

from __future__ import annotations

import pytest

from barnabas.testing.simulation.registry import PLANTED, SCENARIOS, load_all
from barnabas.testing.simulation.runner import hunt_bug, play, play_or_raise
from tests.testing.seeds import chunk_name, chunks, digest_in_another_process

load_all()
SEEDS = 1000
BUGS = [bug.name for bug in PLANTED.values() if bug.scenario == "replicas"]


@pytest.mark.parametrize("seeds", chunks(50, SEEDS), ids=chunk_name)
def test_what_was_exposed_survives(seeds: range) -> None:
    # M-D1 to M-D9; cluster.md 1 to 14, 27
    for seed in seeds:
        play_or_raise(SCENARIOS["replicas"], seed)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    hunt_bug(PLANTED[name])


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    digest = play(SCENARIOS["replicas"], 3).digest
    assert digest_in_another_process("replicas", 3) == digest
