"""`make mutants` on a small project: traced once, then mutated in three ways."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tools.mutants import trial
from tools.mutants.operators import mutants
from tools.mutants.scratch import Scratch, tree_hash
from tools.mutants.source import Mutant
from tools.mutants.tracing import Trace, trace_tree
from tools.mutants.trial import CUT_SHORT, KILLED, SURVIVED, try_mutant

PROJECT = Path(__file__).resolve().parents[2]
COUNTING = "src/barnabas/counting.py"
SOURCES = {
    "src/barnabas/__init__.py": "",
    COUNTING: """
def count(limit):
    number = 0
    while number < limit:
        number += 1
    return number

def unused(limit):
    return limit + 5

def main():
    return count(7)
""",
    "tests/test_counting.py": """
import subprocess, sys
from barnabas.counting import count

def test_it_counts():
    assert count(3) == 3

def test_another_process_counts():
    program = "from barnabas.counting import main; print(main())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "7\\n"
""",
    "tests/test_broken.py": "def test_that_always_fails():\n    raise AssertionError\n",
}
COUNTS = "tests/test_counting.py::test_it_counts"
COUNTS_ELSEWHERE = "tests/test_counting.py::test_another_process_counts"
FAILS = "tests/test_broken.py::test_that_always_fails"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name, text in SOURCES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    (folder / "tools").mkdir()
    (folder / "tools" / "__init__.py").write_text("", "utf-8")
    shutil.copytree(PROJECT / "tools" / "mutants", folder / "tools" / "mutants")
    (folder / ".gitignore").write_text("__pycache__/\nbuild/\n", "utf-8")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.fixture(scope="module")
def scratch(project: Path) -> Scratch:
    return Scratch(project, project / "build" / "tree-0")


@pytest.fixture(scope="module")
def trace(project: Path, scratch: Scratch) -> Trace:
    return trace_tree(scratch, project / "build" / "trace.json", jobs=1)


def fault(after: str) -> Mutant:
    (found,) = (made for made in mutants(COUNTING, SOURCES[COUNTING]) if made.after == after)
    return found


def test_the_trace_records_lines_also_in_other_processes(
    trace: Trace, project: Path, scratch: Scratch
) -> None:
    assert trace.tests == [FAILS, COUNTS_ELSEWHERE, COUNTS]
    assert trace.failing == [FAILS]
    assert trace.covering(fault("number -= 1")) == {COUNTS, COUNTS_ELSEWHERE}
    assert trace.covering(fault("8")) == {COUNTS_ELSEWHERE}
    assert trace_tree(scratch, project / "build" / "trace.json", jobs=1) == trace, "it was kept"


def test_a_fault_that_a_test_notices_is_killed(trace: Trace, scratch: Scratch) -> None:
    verdict = try_mutant(fault("(number <= limit)"), trace, scratch)
    assert (verdict.outcome, verdict.by) == (KILLED, COUNTS)
    assert (scratch.folder / COUNTING).read_text("utf-8") == SOURCES[COUNTING], "the copy is whole again"


def test_a_fault_that_no_test_notices_survives(trace: Trace, scratch: Scratch) -> None:
    assert try_mutant(fault("6"), trace, scratch).outcome == SURVIVED


def test_a_fault_that_makes_a_test_hang_is_distinguished(
    trace: Trace, scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "LEAST_LIMIT_S", 1.0)
    verdict = try_mutant(fault("number -= 1"), Trace([COUNTS], [0.0]), scratch)
    assert (verdict.outcome, verdict.by) == (CUT_SHORT, COUNTS)


def test_a_failure_that_is_not_repeated_is_flaky(trace: Trace, scratch: Scratch, tmp_path: Path) -> None:
    """The test fails at its first run, whatever the code does."""
    mark = tmp_path / "ran"
    fickle = "tests/test_fickle.py::test_once"
    (scratch.folder / "tests" / "test_fickle.py").write_text(
        "from pathlib import Path\n\n"
        "def test_once():\n"
        f"    mark = Path({str(mark)!r})\n"
        "    first = not mark.exists()\n"
        "    mark.touch()\n"
        "    assert not first\n",
        "utf-8",
    )
    only = Trace([fickle], [0.0])
    verdict = try_mutant(fault("6"), only, scratch)
    assert (verdict.outcome, verdict.chances) == (SURVIVED, [fickle])


def test_the_hash_of_a_tree_depends_on_its_contents(project: Path) -> None:
    before = tree_hash(project)
    (project / "tests" / "test_more.py").write_text("def test_more(): pass\n", "utf-8")
    changed = tree_hash(project)
    (project / "tests" / "test_more.py").unlink()
    assert changed != before == tree_hash(project)
