"""A quorum of controllers over single messages in the simulator: seeds pass, planted bugs are found."""

from __future__ import annotations

import pytest

from barnabas.testing.simulation.registry import PLANTED, SCENARIOS, load_all
from barnabas.testing.simulation.runner import hunt_bug, play, play_or_raise
from tests.testing.seeds import chunk_name, chunks, digest_in_another_process

load_all()
SEEDS = 1000
BUGS = [bug.name for bug in PLANTED.values() if bug.scenario == "controller-quorum"]


@pytest.mark.parametrize("seeds", chunks(50, SEEDS), ids=chunk_name)
def test_what_is_answered_is_committed_and_images_are_equal(seeds: range) -> None:
    # M-C8, M-C11: messages are lost, late and duplicated
    for seed in seeds:
        play_or_raise(SCENARIOS["controller-quorum"], seed)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    hunt_bug(PLANTED[name])


def test_there_are_nine_of_them() -> None:
    assert len(BUGS) == 9


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    digest = play(SCENARIOS["controller-quorum"], 3).digest
    assert digest_in_another_process("controller-quorum", 3) == digest
