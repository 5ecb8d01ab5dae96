"""`make verify`: what counts as green, and that only a green run writes the page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools import verify

GREEN = [("test_a.py::one", "call", "passed"), ("test_b.py::two[x/y]", "call", "passed")]


def counts_of(reports: list[tuple[str, str, str]]) -> verify.Counts:
    counts = verify.Counts()
    for nodeid, when, outcome in reports:
        report: Any = SimpleNamespace(nodeid=f"tests/verify/{nodeid}", when=when, outcome=outcome)
        counts.pytest_runtest_logreport(report)
    return counts


def test_outcomes_are_counted_by_file() -> None:
    counts = counts_of(
        [
            ("test_a.py::one", "setup", "passed"),
            ("test_a.py::one", "call", "passed"),
            ("test_a.py::one", "teardown", "passed"),
            ("test_a.py::two", "setup", "failed"),
            ("test_b.py::three[a/b]", "setup", "skipped"),
            ("test_b.py::four", "call", "failed"),
            ("test_b.py::five", "call", "passed"),
            ("test_b.py::five", "teardown", "failed"),
        ]
    )
    assert counts.by_file == {
        "test_a.py": {"passed": 1, "failed": 1},
        "test_b.py": {"skipped": 1, "failed": 2, "passed": 1},
    }
    assert [counts.total(outcome) for outcome in verify.OUTCOMES] == [2, 3, 1]


def test_the_page(page: Path) -> None:
    verify.record("broker", counts_of(GREEN), "0123456789ab", 12.4)
    text = page.read_text("utf-8")
    assert "Commit `0123456789ab`, " in text
    assert "took 12 s.\n" in text
    assert "- **2 passed, 0 failed, 0 skipped**\n" in text
    assert text.endswith("|---|---:|---:|---:|\n| `test_a.py` | 1 | 0 | 0 |\n| `test_b.py` | 1 | 0 | 0 |\n")
    assert "4.1.0" in text


def test_a_part_replaces_only_its_own_last_run(page: Path) -> None:
    verify.record("spark", counts_of(GREEN), "old", 1)
    verify.record("broker", counts_of(GREEN), "other", 1)
    verify.record("spark", counts_of(GREEN[:1]), "new", 1)
    text = page.read_text("utf-8")
    assert "- **3 passed, 0 failed, 0 skipped**\n" in text
    assert [part in text for part in ("`old`", "`other`", "`new`")] == [False, True, True]


def test_every_check_belongs_to_one_part() -> None:
    found = [path for part in verify.PARTS for path in verify.files_of(part)]
    assert sorted(found) == sorted(verify.CHECKS.rglob("test_*.py"))
    assert all(verify.files_of(part) for part in verify.PARTS)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(verify, "PAGE", tmp_path / "verified.md")
    monkeypatch.setattr(verify, "DATA", tmp_path / "verified.json")
    monkeypatch.setattr(verify, "commit", lambda: "0123456789ab")
    return tmp_path / "verified.md"


def run(
    monkeypatch: pytest.MonkeyPatch, reports: list[tuple[str, str, str]], status: int, *arguments: str
) -> int:
    def pytest_main(given: list[str], plugins: list[verify.Counts]) -> int:
        plugins[0].by_file = counts_of(reports).by_file
        return status

    monkeypatch.setattr(pytest, "main", pytest_main)
    monkeypatch.setattr(sys, "argv", ["verify", "broker", *arguments])
    return verify.main()


def test_a_green_run_writes_the_page(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, GREEN, 0) == 0
    assert "**2 passed, 0 failed, 0 skipped**" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("reports", "status", "arguments"),
    [
        ([*GREEN, ("test_b.py::three", "call", "failed")], 1, ()),
        ([*GREEN, ("test_b.py::three", "setup", "skipped")], 0, ()),
        (GREEN, 2, ()),  # Interrupted, or a file could not be imported.
        ([], 5, ()),  # No tests were found.
    ],
    ids=["failed", "skipped", "broken", "nothing"],
)
def test_any_other_run_keeps_the_page_and_fails(
    page: Path,
    monkeypatch: pytest.MonkeyPatch,
    reports: list[tuple[str, str, str]],
    status: int,
    arguments: tuple[str, ...],
) -> None:
    page.write_text("before", "utf-8")
    assert run(monkeypatch, reports, status, *arguments) != 0
    assert page.read_text("utf-8") == "before"


def test_all_parts_are_run_and_one_that_fails_fails_all(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[str] = []

    def call(command: list[str], cwd: Path) -> int:
        parts.append(command[-1])
        return int(command[-1] == "broker")

    monkeypatch.setattr(subprocess, "call", call)
    monkeypatch.setattr(sys, "argv", ["verify"])
    assert verify.main() == 1
    assert parts == list(verify.PARTS)


def test_a_run_of_some_checks_writes_no_page(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, GREEN, 0, "-k", "one") == 0
    assert not page.exists()
