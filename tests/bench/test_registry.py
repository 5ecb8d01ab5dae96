"""The registry of benchmarks: the order of the contenders, statistics, and that every row is registered."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bench import registry
from bench.registry import Contender, Result, Row, RunContext, Workbench, families, load_rows, measure


@pytest.fixture
def no_rows(monkeypatch: pytest.MonkeyPatch) -> dict[str, Row]:
    """A registry for this test only."""
    rows: dict[str, Row] = {}
    monkeypatch.setattr(registry, "ROWS", rows)
    return rows


def silent(line: str) -> None:
    """Ignores the progress."""


def test_contenders_take_turns_after_a_round_that_does_not_count(no_rows: dict[str, Row]) -> None:
    called: list[str] = []
    seen: list[Path] = []

    @registry.row("tiny", "A tiny row", unit="turns", rounds=3)
    def tiny(bench: Workbench) -> Mapping[str, Contender]:
        seen.append(bench.scratch)
        assert bench.scratch.is_dir()
        bench.stack.callback(called.append, "closed")
        values: Iterator[int] = iter(range(100))

        def turn(name: str) -> float:
            called.append(name)
            return float(next(values))

        return {"ours": lambda: turn("ours"), "theirs": lambda: turn("theirs")}

    lines: list[str] = []
    with RunContext() as context:
        (result,) = measure([no_rows["tiny"]], context, lines.append)
    assert called == ["ours", "theirs"] * 4 + ["closed"]
    assert result.values == {"ours": [2, 4, 6], "theirs": [3, 5, 7]}
    assert lines == ["tiny: round 1 of 3", "tiny: round 2 of 3", "tiny: round 3 of 3"]
    assert not seen[0].exists()


def test_resources_of_a_row_are_closed_when_a_contender_fails(no_rows: dict[str, Row]) -> None:
    closed: list[str] = []

    @registry.row("failing", "It fails", unit="x")
    def failing(bench: Workbench) -> Mapping[str, Contender]:
        bench.stack.callback(closed.append, "closed")
        return {"ours": lambda: 1 / 0}

    with RunContext() as context, pytest.raises(ZeroDivisionError):
        measure([no_rows["failing"]], context, silent)
    assert closed == ["closed"]


def test_ratios_are_taken_within_a_round() -> None:
    # A machine that is ten times slower in the second round does not change who is faster.
    values = {"ours": [10.0, 1.0, 12.0], "theirs": [5.0, 0.5, 4.0]}
    result = Result(Row("r", "R", "x", lambda bench: {}), values)
    assert result.ratio("theirs") == 2.0
    assert result.ratio_quartiles("theirs") == (2.0, 2.5)
    assert result.ratio("ours") == 1.0
    assert result.median("ours") == 10.0
    assert result.quartiles("ours") == (5.5, 11.0)
    assert Result(result.row, {"ours": [3.0]}).quartiles("ours") == (3.0, 3.0)


def test_rows_over_one_function_are_measured_together(no_rows: dict[str, Row]) -> None:
    called: list[str] = []

    @registry.row("first", "One value", unit="x", value="one", rounds=2, warm_up=False)
    @registry.row("second", "Another", unit="y", value="two", rounds=2, warm_up=False)
    def both(bench: Workbench) -> Mapping[str, Contender]:
        def turn() -> dict[str, float]:
            called.append("turn")
            return {"one": 1.0, "two": 2.0}

        return {"ours": turn}

    registry.row("alone", "By itself", unit="x")(lambda bench: {"ours": lambda: 3.0})
    found = families(list(no_rows.values()))
    assert [[row.name for row in family] for family in found] == [["second", "first"], ["alone"]]
    with RunContext() as context:
        second, first = measure(found[0], context, silent)
    assert called == ["turn", "turn"]
    assert second.values == {"ours": [2.0, 2.0]}
    assert first.values == {"ours": [1.0, 1.0]}


def test_the_run_context_keeps_shared_objects_until_its_end() -> None:
    made: list[str] = []
    with RunContext() as context:
        folder = context.folder()
        for _ in range(2):
            assert context.shared("servers", lambda: made.append("made") or "servers") == "servers"
        assert folder.is_dir()
    assert made == ["made"]
    assert not folder.exists()


def test_a_name_is_given_once(no_rows: dict[str, Row]) -> None:
    registry.row("same", "One", unit="x")(lambda bench: {})
    with pytest.raises(ValueError, match="two rows are called 'same'"):
        registry.row("same", "Other", unit="x")(lambda bench: {})


def test_every_file_of_rows_registers_one() -> None:
    import bench.rows

    rows = load_rows()
    registered = {row.contenders.__module__.rpartition(".")[2] for row in rows.values()}
    files = {module.name for module in pkgutil.iter_modules(bench.rows.__path__)}
    assert files - registered == {name for name in files if name.endswith("_samples")}
    for row in rows.values():
        assert row.unit, row.name
        assert row.rounds >= 1, row.name
        assert (row.goal is None and row.floor is None) or row.against is not None, row.name
