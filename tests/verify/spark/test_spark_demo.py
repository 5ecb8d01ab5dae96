"""`make demo`: on a terminal until Ctrl+C; without one it ends by itself, goes on from its checkpoint, and brings
its own Java."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.testing.logs import usual
from barnabas.testing.logs.generator import SERVICES
from tests.examples.terminal import check_on_a_terminal
from tests.verify.spark.support.hidden_java import without_java

PROJECT = Path(__file__).resolve().parents[3]
PATIENCE_S = 900
SECONDS = "60"


def run(folder: Path, environment: dict[str, str]) -> tuple[int, int]:
    """How many lines are counted, in how many windows."""
    command = [sys.executable, "-m", "barnabas", "demo", "--folder", str(folder), "--seconds", SECONDS]
    done = subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, timeout=PATIENCE_S, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == f"report: {folder / 'report.html'}"
    assert (folder / "report.html").read_text("utf-8").count("<svg") >= 2
    (line_of_counts,) = [line for line in lines if "lines counted in" in line]
    found = re.match(r"([\d,]+) lines counted in (\d+) windows of (\d+) services", line_of_counts)
    assert found is not None, line_of_counts
    assert int(found[3]) == len(SERVICES) + len(usual.NAMES)
    # Nothing but the lines: what went wrong within is in Spark's log.
    assert done.stderr == ""
    assert "StackOverflowError" not in (folder / "spark.log").read_text("utf-8", "replace")
    return int(found[1].replace(",", "")), int(found[2])


def test_it_ends_and_goes_on_and_brings_its_own_java(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines, windows = run(tmp_path, dict(os.environ))
    assert lines > 0
    more_lines, more_windows = run(tmp_path, without_java(tmp_path_factory.mktemp("bare")))
    assert more_lines > lines
    assert more_windows > windows


def test_on_a_terminal_it_draws_over_itself_until_ctrl_c(tmp_path: Path) -> None:
    """M-I3."""
    check_on_a_terminal("barnabas demo", tmp_path)
