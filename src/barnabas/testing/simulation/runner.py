"""Runs scenarios: one seed, many seeds, and the search for planted bugs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from barnabas.runtime.planted import Caught, PlantedBug, hunt
from barnabas.runtime.simulated.world import World
from barnabas.testing.simulation.registry import SCENARIOS, Scenario


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one seed."""

    scenario: str
    seed: int
    events: int
    digest: str
    trace: tuple[str, ...]
    error: Exception | None


def play(scenario: Scenario, seed: int, *, keep_trace: bool = False) -> Outcome:
    """Run a scenario with a seed; an exception is part of the outcome."""
    world = World(seed, keep_trace=keep_trace)
    error: Exception | None = None
    try:
        scenario.play(world)
    except Exception as raised:
        error = raised
    return Outcome(
        scenario.name, seed, world.agenda.events, world.trace.digest, tuple(world.trace.lines), error
    )


def play_or_raise(scenario: Scenario, seed: int) -> Outcome:
    """Like `play`; raises the scenario's exception."""
    outcome = play(scenario, seed)
    if outcome.error is not None:
        raise outcome.error
    return outcome


def hunt_bug(bug: PlantedBug, first_seed: int = 0) -> Caught:
    """Find a planted bug with its scenario; HuntError if that fails."""
    scenario = SCENARIOS.get(bug.scenario)
    if scenario is None:
        raise ValueError(
            f"planted bug {bug.name!r} names the scenario {bug.scenario!r}, which does not exist"
        )
    return hunt(bug, partial(play_or_raise, scenario), first_seed)


def replay_command(outcome: Outcome) -> str:
    """The command that reproduces this seed."""
    return f"python -m barnabas.testing.simulation --scenario {outcome.scenario} --seed {outcome.seed}"
