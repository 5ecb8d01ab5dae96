"""Scenarios and planted bugs are registered by their modules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.runtime.simulated.world import World
from barnabas.testing.simulation import registry
from barnabas.testing.simulation.registry import load_all, planted, scenario


@pytest.fixture(autouse=True)
def own_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "SCENARIOS", {})
    monkeypatch.setattr(registry, "PLANTED", {})


def play(world: World) -> None:
    """Nothing happens.

    And nothing more is said of it in a list.
    """


def plant() -> Iterator[None]:
    """Nothing is wrong."""
    yield


def test_a_scenario_is_registered_with_the_first_line_of_its_docstring() -> None:
    assert scenario("nothing")(play) is play
    assert registry.SCENARIOS["nothing"].description == "Nothing happens."
    with pytest.raises(ValueError, match="two scenarios named 'nothing'"):
        scenario("nothing")(play)


def test_a_planted_bug_is_registered_and_can_be_planted_many_times() -> None:
    planted("none", scenario="nothing", within_seeds=1)(plant)
    bug = registry.PLANTED["none"]
    for _ in range(2):
        with bug.plant():
            pass
    with pytest.raises(ValueError, match="two planted bugs named 'none'"):
        planted("none", scenario="nothing", within_seeds=1)(plant)


def test_registered_functions_need_a_docstring() -> None:
    def silent(world: World) -> None: ...

    with pytest.raises(ValueError, match="needs a docstring"):
        scenario("silent")(silent)


def test_every_module_of_scenarios_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    load_all()
    assert "register" in registry.SCENARIOS
    assert all(bug.scenario in registry.SCENARIOS for bug in registry.PLANTED.values())
