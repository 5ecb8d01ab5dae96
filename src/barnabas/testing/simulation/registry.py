"""The registry of scenarios and planted bugs.  Both tables are filled when their modules are imported."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from barnabas.runtime.planted import HUNT_SEEDS, PlantedBug
from barnabas.runtime.simulated.world import World

Play = Callable[[World], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A name, and a function that runs in a world."""

    name: str
    description: str
    play: Play


SCENARIOS: dict[str, Scenario] = {}
PLANTED: dict[str, PlantedBug] = {}


def scenario(name: str) -> Callable[[Play], Play]:
    """Register a function as a scenario; the first line of its docstring describes it."""

    def register(play: Play) -> Play:
        if name in SCENARIOS:
            raise ValueError(f"there are two scenarios named {name!r}: rename one")
        SCENARIOS[name] = Scenario(name, _first_line(play), play)
        return play

    return register


def planted(
    name: str, *, scenario: str, first_seed: int = 0, within_seeds: int = HUNT_SEEDS
) -> Callable[[Callable[[], Iterator[None]]], Callable[[], Iterator[None]]]:
    """Register a generator function, which plants a bug, yields and removes it, as a planted bug.

    `first_seed`: for a bug that few seeds show, one that did, so that the search is short.
    """

    def register(plant: Callable[[], Iterator[None]]) -> Callable[[], Iterator[None]]:
        if name in PLANTED:
            raise ValueError(f"there are two planted bugs named {name!r}: rename one")
        PLANTED[name] = PlantedBug(
            name, _first_line(plant), scenario, within_seeds, contextmanager(plant), first_seed
        )
        return plant

    return register


def load_all() -> None:
    """Import every module of `scenarios/` and of the packages in it, in order of name."""
    from barnabas.testing.simulation import scenarios

    modules = pkgutil.walk_packages(scenarios.__path__, f"{scenarios.__name__}.")
    for module in sorted(modules, key=lambda each: each.name):
        importlib.import_module(module.name)


def _first_line(function: Callable[..., object]) -> str:
    text = (function.__doc__ or "").strip()
    if not text:
        raise ValueError(f"{function.__qualname__} needs a docstring that says what it is about")
    return text.splitlines()[0]
