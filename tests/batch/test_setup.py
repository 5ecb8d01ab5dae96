"""The build where compiling is impossible: it says so in one line and leaves working plain Python."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
ENGINE = Path("src", "barnabas", "batch", "engine")
ONE_LINE = "barnabas: the engine stays plain Python: "

COMPILER = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")

# The real compiler without the path of Python's headers.
NO_HEADERS = """#!{python}
import os, sys
arguments = [part for part in sys.argv[1:] if not (part.startswith("-I") and "python" in part.lower())]
os.execvp({compiler!r}, [*{command!r}, *arguments])
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files that a build needs."""
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(PROJECT / name, tmp_path)
    (tmp_path / ENGINE).mkdir(parents=True)
    for path in (PROJECT / ENGINE).glob("*.py"):
        shutil.copy(path, tmp_path / ENGINE)
    return tmp_path


def build(project: Path, **environment: Any) -> subprocess.CompletedProcess[str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("BARNABAS_")}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=project,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def messages(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("barnabas: ")]


def test_without_a_compiler(project: Path) -> None:
    done = build(project, CC=str(project / "no-such-compiler"))
    assert done.returncode == 0, done.stderr
    (line,) = messages(done)
    assert line.startswith(ONE_LINE + "no C compiler")
    assert not list((project / ENGINE).glob("*.so"))


# Without a compiler the headers are never needed, and this test is not collected.
if shutil.which(COMPILER[0]) is not None:

    def test_without_python_headers(project: Path) -> None:
        compiler = project / "cc"
        program = NO_HEADERS.format(python=sys.executable, compiler=COMPILER[0], command=COMPILER)
        compiler.write_text(program, "utf-8")
        compiler.chmod(0o755)
        (project / "plain.c").write_text("int plain;\n", "utf-8")
        plain = subprocess.run([compiler, "-c", "plain.c"], cwd=project, check=False)
        assert plain.returncode == 0  # It does compile what needs no headers.
        done = build(project, CC=str(compiler))
        assert done.returncode == 0, done.stderr
        (line,) = messages(done)
        assert line.startswith(ONE_LINE + "no C compiler with Python's headers")
        assert "Python.h" in done.stderr
        assert not list((project / ENGINE).glob("*.so"))


def test_without_mypyc_or_with_compilation_disabled(project: Path) -> None:
    compiler = project / "cc"
    compiler.write_text("#!/bin/sh\nexit 0\n", "utf-8")
    compiler.chmod(0o755)
    missing = project / "missing" / "mypyc"
    missing.mkdir(parents=True)
    (missing / "__init__.py").write_text("raise ImportError('not here')", "utf-8")
    done = build(project, CC=str(compiler), PYTHONPATH=str(missing.parent))
    assert done.returncode == 0, done.stderr
    assert messages(done) == [f"{ONE_LINE}mypyc is missing (not here)"]
    done = build(project, BARNABAS_COMPILE="0")
    assert done.returncode == 0, done.stderr
    assert messages(done) == [f"{ONE_LINE}BARNABAS_COMPILE=0"]


def test_a_failure_is_fatal_when_compilation_is_required(project: Path) -> None:
    done = build(project, CC=str(project / "no-such-compiler"), BARNABAS_COMPILE="1")
    assert done.returncode != 0
    assert "could not be compiled: no C compiler" in done.stderr


def test_old_compiled_modules_do_not_survive_a_plain_build(project: Path) -> None:
    from importlib.machinery import EXTENSION_SUFFIXES

    old = project / ENGINE / f"walk{EXTENSION_SUFFIXES[0]}"
    other = project / ENGINE / "walk.cpython-399-other.so"
    old.touch()
    other.touch()
    assert build(project, BARNABAS_COMPILE="0").returncode == 0
    assert not old.exists()
    assert other.exists()
