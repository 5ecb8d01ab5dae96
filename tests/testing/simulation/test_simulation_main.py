"""The command: exit codes, a failing seed with its replay, the search for planted bugs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from barnabas.runtime.planted import PlantedBug
from barnabas.runtime.simulated.world import InvariantError, World
from barnabas.testing.simulation import __main__ as command
from barnabas.testing.simulation.registry import Scenario

planted_here = False


def good(world: World) -> None:
    world.agenda.after(5, lambda: world.agenda.note("tick"))
    world.run()
    if planted_here and world.seed == 2:
        raise InvariantError("found it")


def bad(world: World) -> None:
    world.agenda.note("begin")
    if world.seed >= 4:
        raise InvariantError("seed four or more")


@contextmanager
def plant() -> Iterator[None]:
    global planted_here
    planted_here = True
    yield
    planted_here = False


@pytest.fixture(autouse=True)
def own_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    scenarios = {name: Scenario(name, "It is " + name, play) for name, play in (("good", good), ("bad", bad))}
    bugs = {
        name: PlantedBug(name, f"A bug that is {name}", "good", seeds, plant)
        for name, seeds in (("shown", 5), ("hidden", 2))
    }
    monkeypatch.setattr(command, "SCENARIOS", scenarios)
    monkeypatch.setattr(command, "PLANTED", bugs)
    monkeypatch.setattr(command, "load_all", lambda: None)
    monkeypatch.setattr("barnabas.testing.simulation.runner.SCENARIOS", scenarios)


def test_passing_seeds_exit_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--scenario", "good", "--seeds", "7"]) == 0
    assert "good: 7 seeds passed, 7 events" in capsys.readouterr().out


def test_a_failing_seed_is_printed_with_its_replay_and_exits_with_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["--seeds", "10"]) == 1
    printed = capsys.readouterr().out
    assert "good: 10 seeds passed" in printed
    assert "bad: seed 4 FAILED after 0 events: InvariantError('seed four or more')" in printed
    assert "replay it: python -m barnabas.testing.simulation --scenario bad --seed 4" in printed


def test_one_seed_shows_its_whole_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--scenario", "bad", "--seed", "9"]) == 1
    printed = capsys.readouterr()
    assert "0 begin" in printed.out
    assert "bad: seed 9 failed: seed four or more" in printed.out
    assert "InvariantError" in printed.err
    assert command.main(["--scenario", "bad", "--seed", "1"]) == 0


def test_progress_is_reported(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "PROGRESS_NS", -1)
    assert command.main(["--scenario", "good", "--seeds", "2", "--first-seed", "5"]) == 0
    assert "good: 1 of 2 seeds, 1 events" in capsys.readouterr().out


def test_planted_bugs_are_searched_for_and_a_missed_one_is_a_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["--planted", "--scenario", "good"]) == 1
    printed = capsys.readouterr().out
    assert "found shown with seed 2 of good: found it" in printed
    assert "NOT FOUND hidden: not found with seeds 0 to 1" in printed
    assert command.main(["--planted", "--scenario", "bad"]) == 0


def test_an_unknown_scenario_is_rejected_with_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--scenario", "god"]) == 2
    assert "no scenario 'god'; there are: good, bad" in capsys.readouterr().out


def test_the_list_names_scenarios_and_their_bugs(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    assert "good: It is good\n  planted shown: A bug that is shown" in capsys.readouterr().out
