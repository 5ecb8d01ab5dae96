"""The quorum in the simulator: many seeds pass, and every planted bug is found."""

from __future__ import annotations

import pytest

from barnabas.testing.simulation.registry import PLANTED, SCENARIOS, load_all
from barnabas.testing.simulation.runner import hunt_bug, play, play_or_raise
from tests.testing.seeds import chunk_name, chunks, digest_in_another_process

load_all()
# The core of the cluster, and quick: more than the other scenarios have.
SEEDS = 1000
BUGS = [bug.name for bug in PLANTED.values() if bug.scenario == "raft-quorum"]


@pytest.mark.parametrize("seeds", chunks(50, SEEDS), ids=chunk_name)
def test_committed_records_survive(seeds: range) -> None:
    # M-C; cluster.md 18 to 22, 26, 27
    for seed in seeds:
        play_or_raise(SCENARIOS["raft-quorum"], seed)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    hunt_bug(PLANTED[name])


def test_there_are_fifteen_of_them() -> None:
    assert len(BUGS) >= 15


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    digest = play(SCENARIOS["raft-quorum"], 3).digest
    assert digest_in_another_process("raft-quorum", 3) == digest
