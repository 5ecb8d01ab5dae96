"""A metadata quorum of whole nodes in the simulator: seeds pass, planted bugs are found."""

from __future__ import annotations

import pytest

from barnabas.testing.simulation.registry import PLANTED, SCENARIOS, load_all
from barnabas.testing.simulation.runner import hunt_bug, play, play_or_raise
from tests.testing.seeds import chunk_name, digest_in_another_process

load_all()
# Whole nodes: a seed takes more than a second.
SEEDS = 40
CHUNK = 5
BUGS = [bug.name for bug in PLANTED.values() if bug.scenario == "metadata-quorum"]


@pytest.mark.parametrize(
    "seeds", [range(first, first + CHUNK) for first in range(0, SEEDS, CHUNK)], ids=chunk_name
)
def test_one_committed_log_whatever_happens(seeds: range) -> None:
    for seed in seeds:
        play_or_raise(SCENARIOS["metadata-quorum"], seed)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    hunt_bug(PLANTED[name])


def test_there_are_eleven_of_them() -> None:
    assert len(BUGS) == 11


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    digest = play(SCENARIOS["metadata-quorum"], 3).digest
    assert digest_in_another_process("metadata-quorum", 3) == digest
