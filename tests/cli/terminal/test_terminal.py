"""What the commands show in a terminal of 80 columns is as recorded, and nothing is broken.

`python -m tools.terminal` records; it needs tmux.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tools.terminal import COLUMNS, RECORDED, Session, read_sessions, terminal

FILES = sorted(RECORDED.glob("*.txt"))
# What differs from run to run.
CHANGES = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "TIME"),
    (re.compile(r'(?<="timestamp": )\d+|(?<=timestamp: )\d+'), "TIME"),
    (re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])"), "ID"),
    (re.compile(r"127\.0\.0\.1:\d+|localhost:\d+"), "ADDRESS"),
    (re.compile(r"/tmp/barnabas-dev-\w+"), "DATA"),
    (re.compile(r"\bpid \d+|\bup \d+ s|^\[1\] \d+$"), "PROCESS"),
    (re.compile(r"\b\d+\.\d+\b"), "NUMBER"),
    (re.compile(r"HighWatermark: +\d+|MaxFollowerLagTimeMs: +\d+"), "QUORUM"),
    (re.compile(r"^(ok|hint|broken) .*|^ {5,}-> .*|^ {20,}\S.*"), "FOUND"),
    (re.compile(r" +"), " "),
)


def general(lines: list[str]) -> list[str]:
    """The lines without numbers and names that differ; those of a machine's state count once."""
    kept: list[str] = []
    for line in lines:
        for pattern, name in CHANGES:
            line = pattern.sub(name, line)
        if not (kept and line == kept[-1] == "FOUND"):
            kept.append(line.rstrip())
    return kept


def broken(session: Session) -> list[str]:
    """Lines that a window of 80 columns wraps; those of data may be longer."""
    return [
        line for typed in session.typed if not typed.is_data for line in typed.shown if len(line) > COLUMNS
    ]


def test_there_are_forty() -> None:
    sessions = [session for path in FILES for session in read_sessions(path)]
    assert len(sessions) >= 40
    assert [
        typed.line for session in sessions for typed in session.typed if typed.until and not typed.shown
    ] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_recorded_line_is_wider_than_the_window(path: Path) -> None:
    for session in read_sessions(path):
        assert broken(session) == [], session.title


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_terminals_show_what_was_recorded(path: Path) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    recorded, again = read_sessions(path), read_sessions(path)
    with terminal() as window:
        for session in again:
            window.play(session)
    for before, after in zip(recorded, again, strict=True):
        assert broken(after) == [], after.title
        for typed_before, typed_after in zip(before.typed, after.typed, strict=True):
            assert general(typed_after.shown) == general(typed_before.shown), typed_before.line
