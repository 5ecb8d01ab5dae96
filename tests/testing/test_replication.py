"""A replicated cluster of whole nodes in the simulator: seeds pass, planted bugs are found (M-D)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from barnabas.testing.simulation.registry import PLANTED, SCENARIOS, load_all
from barnabas.testing.simulation.runner import hunt_bug, play_or_raise
from tests.testing.seeds import chunk_name

load_all()
SEEDS = 15
CHUNK = 3
BUGS = [bug.name for bug in PLANTED.values() if bug.scenario.startswith("replication")]
CHUNKS = [range(first, first + CHUNK) for first in range(0, SEEDS, CHUNK)]
FEW = CHUNKS[:2]


@pytest.mark.parametrize("seeds", CHUNKS, ids=chunk_name)
def test_nothing_acknowledged_is_lost_whatever_happens(seeds: range) -> None:
    """cluster.md 1-17 and 27."""
    for seed in seeds:
        play_or_raise(SCENARIOS["replication"], seed)


@pytest.mark.parametrize("seeds", CHUNKS, ids=chunk_name)
def test_transactions_are_there_whole_or_not_at_all(seeds: range) -> None:
    """cluster.md 23."""
    for seed in seeds:
        play_or_raise(SCENARIOS["replication-transactions"], seed)


@pytest.mark.parametrize("seeds", FEW, ids=chunk_name)
def test_groups_keep_their_offsets_and_owners_while_coordinators_move(seeds: range) -> None:
    """traps.md 21 and 26."""
    for seed in seeds:
        play_or_raise(SCENARIOS["replication-groups"], seed)


@pytest.mark.parametrize("seeds", FEW, ids=chunk_name)
def test_unclean_elections_lose_records_of_their_partition_only(seeds: range) -> None:
    for seed in seeds:
        play_or_raise(SCENARIOS["replication-unclean"], seed)


@pytest.mark.parametrize("seeds", FEW, ids=chunk_name)
def test_consumers_see_what_is_committed_also_on_followers_in_their_rack(seeds: range) -> None:
    """KIP-392."""
    for seed in seeds:
        play_or_raise(SCENARIOS["replication-racks"], seed)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    hunt_bug(PLANTED[name])


def test_there_are_as_many_of_them_as_the_docs_say() -> None:
    assert len(BUGS) >= 20


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    """Also if strings have other hashes there: no order may depend on them."""
    program = (
        "from barnabas.testing.simulation.registry import SCENARIOS, load_all\n"
        "from barnabas.testing.simulation.runner import play\n"
        "load_all()\n"
        "print(play(SCENARIOS['replication-transactions'], 3).digest)\n"
    )
    digests = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.splitlines()[-1]
        for hash_seed in (1, 2)
    ]
    assert digests[0] == digests[1]
