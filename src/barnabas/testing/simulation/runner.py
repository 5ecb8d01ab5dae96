"""Runs scenarios: one seed, many seeds, and the search for planted bugs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from barnabas.runtime.planted import Caught, PlantedBug, hunt
from barnabas.runtime.simulated.world import World
from barnabas.testing.simulation.registry import SCENARIOS, Scenario

# Objects that a seed creates before its garbage is looked for; most seeds end before.
COLLECT_EVERY = 200_000


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
    with _collected_at_the_end():
        world = World(seed, keep_trace=keep_trace)
        error: Exception | None = None
        try:
            scenario.play(world)
        except Exception as raised:
            error = raised
        outcome = Outcome(
            scenario.name, seed, world.agenda.events, world.trace.digest, tuple(world.trace.lines), error
        )
        del world
    return outcome


@contextmanager
def _collected_at_the_end() -> Iterator[None]:
    """A world is full of cycles and alive to its end: looking for garbage in it takes a fifth of the time."""
    thresholds = gc.get_threshold()
    gc.set_threshold(COLLECT_EVERY, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        # The objects of this seed only.
        gc.collect(0)


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
