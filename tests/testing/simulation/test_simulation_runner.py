"""Running seeds: failures are part of the outcome, and the same seed gives the same bytes in every process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from barnabas.runtime.planted import PlantedBug
from barnabas.runtime.simulated.world import InvariantError, World
from barnabas.testing.simulation import registry
from barnabas.testing.simulation.registry import Scenario, load_all
from barnabas.testing.simulation.runner import hunt_bug, play, play_or_raise, replay_command


def fails_at_three(world: World) -> None:
    world.agenda.note("begin")
    if world.seed == 3:
        raise InvariantError("three")


THREE = Scenario("three", "Fails with seed 3.", fails_at_three)


def test_an_outcome_contains_the_error_and_how_to_reproduce_it() -> None:
    assert play(THREE, 2).error is None
    outcome = play(THREE, 3)
    assert str(outcome.error) == "three"
    assert outcome.trace == ("0 begin",)
    assert replay_command(outcome).endswith("--scenario three --seed 3")
    with pytest.raises(InvariantError, match="three"):
        play_or_raise(THREE, 3)


def test_a_bug_of_an_unknown_scenario_is_rejected() -> None:
    bug = PlantedBug("lost", "nowhere", "no such scenario", 1, lambda: pytest.fail("must not be planted"))
    with pytest.raises(ValueError, match="does not exist"):
        hunt_bug(bug)


def test_the_same_seed_gives_the_same_bytes_in_processes_that_hash_differently() -> None:
    load_all()
    expected = play(registry.SCENARIOS["register"], 11)
    program = (
        "from barnabas.testing.simulation import registry, runner\n"
        "registry.load_all()\n"
        "outcome = runner.play(registry.SCENARIOS['register'], 11)\n"
        "print(outcome.digest, outcome.events)\n"
    )
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == [expected.digest, str(expected.events)]
