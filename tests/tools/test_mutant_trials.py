"""`make mutants` on a small project: traced once, then mutated in three ways."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from tools.mutants import trial
from tools.mutants.imports import read_imports
from tools.mutants.operators import mutants
from tools.mutants.scratch import SHARED, Scratch, tree_hash
from tools.mutants.source import Mutant
from tools.mutants.tracing import Trace, trace_tree
from tools.mutants.trial import COVERING, KILLED, SURVIVED, TIMED_OUT, try_mutant

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
    # This project's package has the same name, and not the plugin that is installed with it.
    "pytest.ini": "[pytest]\naddopts = -q -p no:barnabas\n",
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
    monkeypatch.setattr(trial, "MIN_LIMIT_S", 5.0)
    monkeypatch.setattr(trial, "TIMES_CLEAN", 0.0)
    verdict = try_mutant(fault("number -= 1"), Trace([COUNTS], [0.0]), scratch)
    assert (verdict.outcome, verdict.by) == (TIMED_OUT, COUNTS)


def test_a_time_out_on_a_slow_machine_kills_nothing(
    trace: Trace, scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the mutant, the test would have to be faster than the machine can start it."""
    monkeypatch.setattr(trial, "MIN_LIMIT_S", 5.0)
    monkeypatch.setattr(trial, "TIMES_CLEAN", 1e9)
    verdict = try_mutant(fault("number -= 1"), Trace([COUNTS], [0.0]), scratch)
    assert (verdict.outcome, verdict.flaky) == (SURVIVED, [COUNTS])


def test_a_test_that_fails_without_the_mutant_kills_nothing(scratch: Scratch) -> None:
    verdict = try_mutant(fault("6"), Trace([FAILS], [0.0]), scratch)
    assert (verdict.outcome, verdict.flaky) == (SURVIVED, [FAILS])


def test_tests_are_chosen_by_their_imports_if_none_are_traced(project: Path, scratch: Scratch) -> None:
    imports = read_imports(project, scratch, project / "build" / "collected.json")
    assert sorted(imports.tests) == [FAILS, COUNTS_ELSEWHERE, COUNTS]
    assert imports.covering(fault("8")) == {COUNTS, COUNTS_ELSEWHERE}
    assert try_mutant(fault("8"), imports, scratch, COVERING).by == COUNTS_ELSEWHERE


def test_only_changed_modules_of_tests_are_traced_again(project: Path, scratch: Scratch) -> None:
    kept = project / "build" / "part.json"
    part = Trace(["tests/test_counting.py::old", FAILS], [1.0, 7.0], [FAILS], {COUNTING: {"9": [0, 1]}})
    before = {SHARED: "sources", "tests/test_counting.py": "old", "tests/test_broken.py": "same"}
    part.modules = before
    kept.write_text(json.dumps(asdict(part)), "utf-8")
    changed = trace_tree(scratch, kept, 1, modules={**before, "tests/test_counting.py": "new"})
    assert changed.tests == [FAILS, COUNTS_ELSEWHERE, COUNTS]
    assert changed.seconds[0] == 7.0, "this was not traced again"
    assert changed.covering(fault("8")) == {COUNTS_ELSEWHERE}
    assert changed.lines[COUNTING]["9"] == [0]
    anew = trace_tree(scratch, kept, 1, modules={**changed.modules, SHARED: "changed sources"})
    assert anew.seconds[anew.tests.index(FAILS)] < 7.0, "everything is traced again"


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
    assert (verdict.outcome, verdict.flaky) == (SURVIVED, [fickle])


def test_the_hash_of_a_tree_depends_on_its_contents(project: Path) -> None:
    before = tree_hash(project)
    (project / "tests" / "test_more.py").write_text("def test_more(): pass\n", "utf-8")
    changed = tree_hash(project)
    (project / "tests" / "test_more.py").unlink()
    assert changed != before == tree_hash(project)
