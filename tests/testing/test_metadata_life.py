"""The metadata log in the simulator: seeds pass, power may fail at every step, planted bugs are found."""

from __future__ import annotations

import pytest

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.simulated.disk_faults import CHANGING
from barnabas.runtime.simulated.world import World
from barnabas.testing.simulation.registry import PLANTED, SCENARIOS, load_all
from barnabas.testing.simulation.runner import hunt_bug, play, play_or_raise
from barnabas.testing.simulation.scenarios import metadata_life
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


def test_a_start_on_a_slow_disk_may_last_longer_than_the_quiet() -> None:
    # So it did in seed 4200297: 285 operations of 92 ms, and responses were expected within 20 s.
    world = World(1)
    life = metadata_life.MetadataLife(world, dynamic=False)
    life.ask_on()
    world.run(500 * NS_PER_MS)
    life.node.crash(power_loss=True)
    life.node.disk.slow(1_000, kinds=CHANGING)
    life.node.start()
    life.node.disk.clear_faults()
    assert life.node.stalled_ns > metadata_life.QUIET_NS
    metadata_life._end_well(world, life)


def test_a_node_that_has_resigned_is_stopped_once_it_leads_again() -> None:
    # In seed 53110290 responses of before were sent while the resigned leader waited for its disk.
    world = World(1)
    life = metadata_life.MetadataLife(world, dynamic=False)
    life.ask_on()
    world.run(500 * NS_PER_MS)
    assert life.leads

    def resign() -> None:
        life._resign()
        life.answers += 5

    life.node.after(10 * NS_PER_MS, resign)
    metadata_life._end_well(world, life)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    hunt_bug(PLANTED[name])


def test_there_are_twelve_of_them() -> None:
    assert len(BUGS) == 12


def test_the_same_seed_gives_the_same_trace() -> None:
    scenario = SCENARIOS["metadata-life"]
    assert play(scenario, 3).digest == play(scenario, 3).digest
