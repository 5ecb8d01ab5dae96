"""The page of benchmarks: its results, and whether goals are marked as reached when they are."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as program
from bench import page as pages
from bench.registry import Contender, Row, Workbench


def row(name: str = "tiny", **changes: Any) -> Row:
    values: dict[str, Any] = {
        "name": name,
        "title": f"The {name} row",
        "unit": "turns/s",
        "higher_is_better": True,
        "goal": 2.0,
        "floor": 1.5,
        "against": "theirs",
        "rounds": 3,
        "contenders": contenders,
    }
    return Row(**(values | changes))


def contenders(bench: Workbench) -> Mapping[str, Contender]:
    return {"ours": lambda: 3600.0, "theirs": lambda: 2000.0}


def found(ratio: float) -> dict[str, Any]:
    ours = {"name": "ours", "ratio": 1.0, "median": 3600.0}
    return {"contenders": [ours, {"name": "theirs", "ratio": ratio, "median": 2000.0}]}


@pytest.mark.parametrize(
    ("changes", "ratio", "line"),
    [
        ({}, 2.0, "goal ≥ 2 × theirs: reached; floor ≥ 1.5 × theirs: reached (measured 2 ×)."),
        ({}, 1.8, "goal ≥ 2 × theirs: MISSED; floor ≥ 1.5 × theirs: reached (measured 1.8 ×)."),
        ({"goal": None}, 1.0, "floor ≥ 1.5 × theirs: MISSED (measured 1 ×)."),
        (
            {"higher_is_better": False, "goal": 0.5, "floor": 1.0},
            0.75,
            "goal ≤ 0.5 × theirs: MISSED; floor ≤ 1 × theirs: reached (measured 0.75 ×).",
        ),
        (
            {"higher_is_better": False, "goal": 1.05, "floor": None, "allowance": 1600.0},
            1.8,
            "goal ≤ 1.05 × theirs + 1600 turns/s: reached (measured 1.8 ×).",
        ),
        (
            {"higher_is_better": False, "goal": 1.05, "floor": None, "allowance": 1400.0},
            1.8,
            "goal ≤ 1.05 × theirs + 1400 turns/s: MISSED (measured 1.8 ×).",
        ),
        (
            {"own_goal": 4000.0, "floor": None},
            2.0,
            "goal ≥ 2 × theirs: reached; goal ≥ 4 k turns/s: MISSED (measured 2 ×).",
        ),
    ],
)
def test_the_verdict(changes: dict[str, Any], ratio: float, line: str) -> None:
    assert pages.verdict(row(**changes), found(ratio)).strip() == line


def test_a_missed_goal_is_explained() -> None:
    explained = row(why="They cheat.")
    assert "They cheat." in pages.verdict(explained, found(1.9))
    assert "They cheat." not in pages.verdict(explained, found(2.0))


def test_no_verdict_without_a_competitor() -> None:
    assert pages.verdict(row(against=None), found(1.0)) == ""
    missing = {"contenders": [{"name": "ours", "ratio": 1.0, "median": 1.0}]}
    assert "Not measured against theirs on this machine." in pages.verdict(row(), missing)


@pytest.mark.parametrize(
    ("value", "text"), [(0.125, "0.125"), (999, "999"), (1234, "1.23 k"), (2.5e6, "2.5 M"), (1e9, "1 G")]
)
def test_human_readable_numbers(value: float, text: str) -> None:
    assert pages.human(value) == text


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page, its results and its notes in a temporary folder; two tiny rows."""
    monkeypatch.setattr(program, "PAGE", tmp_path / "benchmarks.md")
    monkeypatch.setattr(program, "FIGURES", tmp_path / "benchmarks.json")
    monkeypatch.setattr(program, "NOTES", tmp_path / "notes.md")
    rows = {name: row(name) for name in ("tiny", "other")}
    monkeypatch.setattr(program, "load_rows", lambda: rows)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *names: str) -> int:
    monkeypatch.setattr(sys, "argv", ["bench", *names])
    return program.main()


def test_a_row_is_measured_and_written(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "notes.md").write_text("## Notes\n\nBy hand.\n", "utf-8")
    assert run(monkeypatch, "tiny") == 0
    page = (place / "benchmarks.md").read_text("utf-8")
    assert page.startswith("# Benchmarks\n")
    assert "### The tiny row\n\n`tiny`, turns/s; higher is better." in page
    assert "| ours | 3.6 k | 3.6 k – 3.6 k | 1 | 1 – 1 |" in page
    assert "| theirs | 2 k | 2 k – 2 k | 1.8 | 1.8 – 1.8 |" in page
    assert "| The tiny row (turns/s) | 3.6 k | 2 k | 1.8 | ≥ 2 ✗ | ≥ 1.5 ✓ |" in page
    assert "goal ≥ 2 × theirs: MISSED; floor ≥ 1.5 × theirs: reached (measured 1.8 ×)." in page
    assert "3 rounds" in page
    assert page.endswith("## Notes\n\nBy hand.\n")
    assert "The other row" not in page
    assert "## The tiny row" in capsys.readouterr().out


def test_rows_that_were_not_run_keep_their_results(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch) == 0
    figures = json.loads((place / "benchmarks.json").read_text("utf-8"))
    figures["other"]["commit"] = "before"
    (place / "benchmarks.json").write_text(json.dumps(figures), "utf-8")
    assert run(monkeypatch, "tiny") == 0
    assert json.loads((place / "benchmarks.json").read_text("utf-8"))["other"] == figures["other"]
    assert "commit `before`" in (place / "benchmarks.md").read_text("utf-8")


def test_a_star_matches_any_suffix(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "t*") == 0
    assert list(json.loads((place / "benchmarks.json").read_text("utf-8"))) == ["tiny"]


def test_an_unknown_row_is_refused_before_anything_is_measured(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "tiny", "missing") == 2
    assert "no such row: missing. Rows: tiny, other" in capsys.readouterr().err
    assert list(place.iterdir()) == []
