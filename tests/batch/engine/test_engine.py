"""Which engine is used: compiled, interpreted or stale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from barnabas.batch import engine
from barnabas.batch.engine import BUILD_FILE, COMPILED, INTERPRETED, STALE, select_engine, source_hashes

SUFFIX = EXTENSION_SUFFIXES[0]


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A folder as a build leaves it."""
    for name in ("__init__", "one", "two"):
        (tmp_path / f"{name}.py").write_text(f"# {name}", "utf-8")
    for name in ("one", "two"):
        (tmp_path / f"{name}{SUFFIX}").touch()
    (tmp_path / BUILD_FILE).write_text(json.dumps({SUFFIX: source_hashes(tmp_path)}), "utf-8")
    return tmp_path


def test_a_build_of_exactly_these_sources_is_compiled(built: Path) -> None:
    assert select_engine(built, None).state == COMPILED
    assert set(source_hashes(built)) == {"one", "two"}


def test_the_environment_can_select_plain_python(built: Path) -> None:
    state = select_engine(built, "interpreted")
    assert state.state == INTERPRETED
    assert "BARNABAS_ENGINE" in state.reason


def test_without_compiled_modules_it_is_interpreted(built: Path) -> None:
    for path in built.glob(f"*{SUFFIX}"):
        path.unlink()
    assert select_engine(built, None).state == INTERPRETED


def test_modules_of_another_python_are_ignored(built: Path) -> None:
    state = select_engine(built, None, ".cpython-399-other.so")
    assert state.state == INTERPRETED
    assert ".cpython-399-other.so" in state.reason


def test_an_edited_source_makes_the_build_stale(built: Path) -> None:
    (built / "two.py").write_text("# changed", "utf-8")
    state = select_engine(built, None)
    assert state.state == STALE
    assert "two" in state.reason


@pytest.mark.parametrize("damage", ["added", "removed", "half", "no record", "garbage", "other python"])
def test_a_build_that_does_not_fit_is_stale(built: Path, damage: str) -> None:
    if damage == "added":
        (built / "three.py").write_text("# three", "utf-8")
    elif damage == "removed":
        (built / "two.py").unlink()
    elif damage == "half":
        (built / f"two{SUFFIX}").unlink()
    elif damage == "no record":
        (built / BUILD_FILE).unlink()
    elif damage == "garbage":
        (built / BUILD_FILE).write_text("[", "utf-8")
    else:
        (built / BUILD_FILE).write_text('{".other.so": {}}', "utf-8")
    assert select_engine(built, None).state == STALE


def test_this_process_runs_the_engine_it_reports() -> None:
    from barnabas.batch.engine import walk

    state = engine.engine_state()
    assert state.state in (COMPILED, INTERPRETED), state.reason
    assert (Path(str(walk.__file__)).suffix == ".py") == (state.state == INTERPRETED)


def test_a_process_configured_so_runs_plain_python() -> None:
    script = (
        "from barnabas.batch.engine import engine_state, walk, varints, columns;"
        "print(engine_state().state, *[m.__file__.endswith('.py') for m in (walk, varints, columns)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "BARNABAS_ENGINE": "interpreted"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["interpreted", "True", "True", "True"]
