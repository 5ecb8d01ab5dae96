"""The search for planted bugs: found, reproduced, and absent without the bug."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from barnabas.runtime.planted import HuntError, PlantedBug, hunt, patched


class Adder:
    offset = 0

    def add(self, one: int, other: int) -> int:
        return one + other + self.offset

    @staticmethod
    def name() -> str:
        return "adder"


def bug(plant: Callable[[], Iterator[None]], within_seeds: int = 10) -> PlantedBug:
    return PlantedBug("off by one", "adds one too many", "adding", within_seeds, contextmanager(plant))


def off_by_one() -> Iterator[None]:
    with patched(Adder, "add", lambda self, one, other: one + other + 1):
        yield


def run(seed: int) -> None:
    if seed >= 3 and Adder().add(seed, seed) != 2 * seed:
        raise AssertionError(f"{seed} + {seed} is wrong")


def test_patched_replaces_and_restores_also_after_an_error() -> None:
    with pytest.raises(KeyError), patched(Adder, "add", lambda self, one, other: 0):
        assert Adder().add(1, 2) == 0
        raise KeyError
    assert Adder().add(1, 2) == 3
    with patched(Adder, "name", staticmethod(lambda: "patched")):
        assert Adder.name() == "patched"
    assert Adder.name() == "adder"
    assert isinstance(vars(Adder)["name"], staticmethod)


def test_an_unknown_name_is_rejected() -> None:
    with pytest.raises(AttributeError, match="adapt the planted bug"), patched(Adder, "plus", None):
        pass


def test_a_bug_is_found_with_its_seed() -> None:
    caught = hunt(bug(off_by_one), run)
    assert caught.seed == 3
    assert str(caught.error) == "3 + 3 is wrong"
    assert hunt(bug(off_by_one), run, first_seed=5).seed == 5
    run(3)


def test_a_bug_that_hides_is_reported() -> None:
    with pytest.raises(HuntError, match="not found with seeds 0 to 2"):
        hunt(bug(off_by_one, within_seeds=3), run)


def test_a_search_begins_with_the_bug_s_first_seed() -> None:
    plays: list[int] = []

    def fails_at_seven(seed: int) -> None:
        plays.append(seed)
        if seed == 7 and Adder().add(0, 0) != 0:
            raise AssertionError("seven")

    seen = PlantedBug(
        "off by one", "adds one too many", "adding", 10, contextmanager(off_by_one), first_seed=6
    )
    assert hunt(seen, fails_at_seven).seed == 7
    assert plays == [6, 7, 7, 7]


@pytest.mark.parametrize("error", [TypeError, AttributeError, NameError])
def test_a_bug_that_does_not_fit_the_code_does_not_count_as_found(error: type[Exception]) -> None:
    """The patched method has a new argument: the error of the planted bug says nothing about the checkers."""

    def misfit(seed: int) -> None:
        if Adder().add(1, 1) != 2:
            raise error("takes 3 positional arguments")

    with pytest.raises(HuntError, match="adapt the planted bug"):
        hunt(bug(off_by_one), misfit)


def test_a_finding_that_is_not_reproducible_is_reported() -> None:
    plays: list[int] = []

    def fickle(seed: int) -> None:
        plays.append(seed)
        if len(plays) == 1:
            raise AssertionError("once")

    with pytest.raises(HuntError, match="played again"):
        hunt(bug(off_by_one), fickle)


def test_code_that_fails_without_the_bug_proves_nothing() -> None:
    def always(seed: int) -> None:
        raise AssertionError("always")

    with pytest.raises(HuntError, match="fails without the bug"):
        hunt(bug(off_by_one), always)
