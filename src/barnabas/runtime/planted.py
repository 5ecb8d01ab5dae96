"""Planted bugs: faults put into our own code on purpose, which the simulator must find.

Contains how a bug is planted temporarily, and the search for it.  The bugs themselves belong beside the
scenario that finds them.  A checker that does not find the planted bugs proves nothing by finding no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

# A search ends with the first seed that finds the bug, and fails after this many seeds.  Every change of the
# code redistributes the seeds, and a bug that one seed in two hundred shows must not be missed.
HUNT_SEEDS = 3000
# Raised by a bug that no longer fits the code around it: "finding" it by one of them proves nothing.
MISFITS = (TypeError, AttributeError, NameError, ImportError)


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """One fault, the scenario that must find it, and within how many seeds."""

    name: str
    description: str
    scenario: str
    within_seeds: int
    plant: Callable[[], AbstractContextManager[None]]
    # The first seed of the search.
    first_seed: int = 0


@dataclass(frozen=True, slots=True)
class Caught:
    """A planted bug that was found: its seed shows it again whenever the bug is planted."""

    bug: PlantedBug
    seed: int
    error: Exception


class HuntError(AssertionError):
    """A planted bug was not found, is not reproducible, does not fit the code, or the code fails without
    it."""


@contextmanager
def patched(owner: object, attribute: str, replacement: object) -> Iterator[None]:
    """Replace an attribute of a class or module temporarily.

    Raises if the owner does not define the name itself: the code was renamed, and the bug must follow it.
    """
    if attribute not in vars(owner):
        raise AttributeError(f"{owner!r} defines no {attribute!r}: adapt the planted bug to the code")
    original = vars(owner)[attribute]
    setattr(owner, attribute, replacement)
    try:
        yield
    finally:
        setattr(owner, attribute, original)


def hunt(bug: PlantedBug, run: Callable[[int], object], first_seed: int = 0) -> Caught:
    """Run seeds with the bug planted until one fails; check that it fails again, and passes without the bug.

    `run` runs the scenario with a seed and raises what it finds.  `first_seed` is added to the bug's own.
    """
    first_seed += bug.first_seed
    for seed in range(first_seed, first_seed + bug.within_seeds):
        error = _play(bug, run, seed)
        if error is None:
            continue
        if isinstance(error, MISFITS):
            raise HuntError(
                f"{bug.name}: adapt the planted bug to the code: seed {seed} gave {error!r}"
            ) from error
        again = _play(bug, run, seed)
        if repr(again) != repr(error):
            raise HuntError(f"{bug.name}: seed {seed} found {error!r} and then, played again, {again!r}")
        _see_healthy(bug, run, seed)
        return Caught(bug, seed, error)
    last = first_seed + bug.within_seeds - 1
    raise HuntError(f"{bug.name}: not found with seeds {first_seed} to {last} of scenario {bug.scenario!r}")


def _play(bug: PlantedBug, run: Callable[[int], object], seed: int) -> Exception | None:
    with bug.plant():
        try:
            run(seed)
        except Exception as error:
            return error
    return None


def _see_healthy(bug: PlantedBug, run: Callable[[int], object], seed: int) -> None:
    try:
        run(seed)
    except Exception as error:
        message = f"{bug.name}: seed {seed} fails without the bug, too, so that finding it proves nothing"
        raise HuntError(f"{message}: {error!r}") from error
