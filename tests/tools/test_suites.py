"""`make suites`: how the last line of a suite is read, and what becomes of a suite that has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import suites


@pytest.mark.parametrize(
    ("line", "cell"),
    [
        ("kcat: 14 passed, 0 failed, 0 skipped", "14 passed, 0 failed, 0 skipped"),
        ("kcat: 63 passed, 2 failed", "63 passed, 2 failed, 0 skipped"),
        ("done. kcat: 38 passed, 0 failed, 6 skipped (12 s)", "38 passed, 0 failed, 6 skipped"),
        ("kcat: no result", "kcat: no result"),
    ],
)
def test_the_last_line_becomes_a_cell(line: str, cell: str) -> None:
    assert f"| kcat | {cell} | 14 passed |\n" in suites.page({"kcat": line})


@pytest.fixture
def ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Two suites with these last lines; the page goes to a temporary folder."""
    lines = {"kcat": "kcat: 14 passed, 0 failed, 0 skipped", "franz-go": "franz-go: 38 passed, 0 failed"}
    monkeypatch.setattr(suites, "SUITES", tmp_path)
    monkeypatch.setattr(suites, "PAGE", tmp_path / "compatibility.md")
    monkeypatch.setattr(suites, "APACHE", dict.fromkeys(lines, "all passed"))
    monkeypatch.setattr(suites, "run_suite", lambda name: lines[name])
    return lines


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(suites.sys, "argv", ["suites", *arguments])
    return suites.main()


def test_the_whole_table_is_written(ready: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch) == 0
    table = suites.PAGE.read_text().splitlines()[-2:]
    assert table == [
        "| kcat | 14 passed, 0 failed, 0 skipped | all passed |",
        "| franz-go | 38 passed, 0 failed, 0 skipped | all passed |",
    ]


def test_some_suites_write_no_table(ready: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "kcat") == 0
    assert not suites.PAGE.exists()


@pytest.mark.parametrize("line", ["kcat: 13 passed, 1 failed, 0 skipped", "kcat: no result", "Killed"])
def test_a_failure_or_no_result_fails_the_run(
    ready: dict[str, str], monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    ready["kcat"] = line
    assert run(monkeypatch) == 1


def test_an_unknown_suite_and_missing_suites_are_told(
    ready: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "kcat,nothing") == 2
    assert "no such suite: nothing. Suites: kcat, franz-go" in capsys.readouterr().err
    monkeypatch.setattr(suites, "SUITES", Path("/nowhere/at/all"))
    assert run(monkeypatch) == 2
    assert "set BARNABAS_SUITES" in capsys.readouterr().err
