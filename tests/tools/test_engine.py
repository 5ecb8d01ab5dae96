"""The last step of `make setup`: when the engine is rebuilt, and the line that is always printed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from barnabas.batch.engine import COMPILED, INTERPRETED, STALE, EngineState
from tools import engine


class World:
    """Successive states of the engine, and the commands that were run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *states: str, compiler: bool, code: int = 0) -> None:
        self.built = 0
        self._states = list(states)
        self._code = code
        monkeypatch.delenv(engine.COMPILE_VARIABLE, raising=False)
        monkeypatch.setattr(engine, "select_engine", self.select_engine)
        monkeypatch.setattr(engine, "can_compile", lambda: compiler)
        monkeypatch.setattr(subprocess, "run", self.run)

    def select_engine(self, folder: object, requested: str | None) -> EngineState:
        assert requested is None  # The engine this process uses does not matter to the build.
        return EngineState(self._states.pop(0), "because")

    def run(self, command: object, **options: object) -> subprocess.CompletedProcess[str]:
        self.built += 1
        return subprocess.CompletedProcess("", self._code)


@pytest.mark.parametrize("compiler", [True, False])
def test_a_compiled_engine_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], compiler: bool
) -> None:
    world = World(monkeypatch, COMPILED, compiler=compiler)
    assert engine.main() == 0
    assert world.built == 0
    assert capsys.readouterr().out == "engine compiled: because\n"


def test_without_a_compiler_the_line_recommends_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(monkeypatch, INTERPRETED, compiler=False)
    assert engine.main() == 0
    assert world.built == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("engine interpreted: because -> ")
    assert "install a C compiler" in line


@pytest.mark.parametrize(
    ("before", "compiler", "after"),
    [(INTERPRETED, True, COMPILED), (STALE, True, COMPILED), (STALE, False, INTERPRETED)],
)
def test_the_engine_is_rebuilt_if_necessary(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    before: Any,
    compiler: bool,
    after: Any,
) -> None:
    world = World(monkeypatch, before, after, compiler=compiler)
    assert engine.main() == 0
    assert world.built == 1
    assert capsys.readouterr().out.startswith(f"engine {after}: ")


def test_plain_python_stays_if_it_was_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, INTERPRETED, compiler=True)
    monkeypatch.setenv(engine.COMPILE_VARIABLE, "0")
    assert engine.main() == 0
    assert world.built == 0


def test_a_build_that_must_compile_and_cannot_fails_the_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, STALE, compiler=True, code=1)
    assert engine.main() == 1
    assert world.built == 1


def test_the_compiler_of_the_build_is_looked_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "no-such-compiler") + " -pipe")
    assert not engine.can_compile()
