"""Which test runs which line: traced once per state of the tree, and saved."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath

import coverage

from barnabas.batch.engine import ENGINE_VARIABLE, INTERPRETED
from tools.mutants.plugin import COVERAGE_FILE, COVERAGE_VARIABLE, TRACE_VARIABLE
from tools.mutants.scratch import ENGINE, SHARED, Scratch
from tools.mutants.source import Mutant

# Compiled code is not traced, so these tests run a second time as plain Python.
TESTS_OF_THE_ENGINE = "tests/batch"
FAILED = "failed"


@dataclass(slots=True)
class Trace:
    """The tests and their durations; for each source file the tests by line, as indexes into `tests`."""

    tests: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    # Tests that fail without a mutant say nothing about mutants.
    failing: list[str] = field(default_factory=list)
    lines: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    # The hashes of the traced tree, see `module_hashes`.
    modules: dict[str, str] = field(default_factory=dict)

    def covering(self, mutant: Mutant) -> set[str]:
        """The tests that run a line of the mutant; for code that runs at import, all tests of the file."""
        by_line = self.lines.get(mutant.path, {})
        numbers: set[int] = set()
        for line in range(mutant.line, mutant.end_line + 1):
            numbers.update(by_line.get(str(line), ()))
        if not numbers:
            numbers.update(number for numbers in by_line.values() for number in numbers)
        return {self.tests[number] for number in numbers}

    def near(self, mutant: Mutant) -> set[str]:
        """The tests in modules that cover the line, and in the folder that mirrors the source.

        A broker that several tests share has its lines attributed to the first of them only.
        """
        modules = {module_of(test) for test in self.covering(mutant)}
        mirror = str(PurePosixPath("tests", *PurePosixPath(mutant.path).parts[2:-1])) + "/"
        return {test for test in self.tests if module_of(test) in modules or test.startswith(mirror)}

    def mentions(self, module: str, mutant: Mutant) -> int:
        """Not needed: the lines are known."""
        return 0

    def seconds_of(self) -> dict[str, float]:
        return dict(zip(self.tests, self.seconds, strict=True))

    def only(self, modules: Collection[str]) -> Trace:
        """The part of the tests in these modules."""
        kept = [number for number, test in enumerate(self.tests) if module_of(test) in modules]
        numbers = {old: new for new, old in enumerate(kept)}
        return Trace(
            [self.tests[number] for number in kept],
            [self.seconds[number] for number in kept],
            [test for test in self.failing if module_of(test) in modules],
            {path: _renumbered(lines, numbers) for path, lines in self.lines.items()},
        )

    def add(self, other: Trace) -> None:
        """Adds a trace of other tests of the same sources."""
        numbers = {number: len(self.tests) + number for number in range(len(other.tests))}
        self.tests += other.tests
        self.seconds += other.seconds
        self.failing += other.failing
        for path, lines in other.lines.items():
            known = self.lines.setdefault(path, {})
            for line, added in _renumbered(lines, numbers).items():
                known[line] = [*known.get(line, ()), *added]


def module_of(test: str) -> str:
    return test.split("::")[0]


def _renumbered(lines: dict[str, list[int]], numbers: dict[int, int]) -> dict[str, list[int]]:
    renumbered = {line: [numbers[old] for old in tests if old in numbers] for line, tests in lines.items()}
    return {line: tests for line, tests in renumbered.items() if tests}


def trace_tree(
    scratch: Scratch, kept: Path, jobs: int, tests: str = "tests", modules: dict[str, str] | None = None
) -> Trace:
    """The trace of this tree: saved, or created now, which takes longer than `make test`.

    With the hashes of the tree, only the modules of tests that changed since `kept` was written are traced,
    unless something that all tests share has changed.
    """
    modules = modules or {}
    trace = Trace(**json.loads(kept.read_text("utf-8"))) if kept.exists() else None
    if trace is not None and trace.modules == modules:
        return trace
    if trace is not None and trace.modules.get(SHARED) == modules.get(SHARED):
        same = {name for name, digest in modules.items() if trace.modules.get(name) == digest}
        trace = trace.only(same)
        changed = [name for name in modules.keys() - same - {SHARED} if name.startswith(tests)]
        if changed:
            trace.add(_trace(scratch, kept.with_suffix(""), jobs, sorted(changed)))
    else:
        trace = _trace(scratch, kept.with_suffix(""), jobs, [tests])
    trace.modules = modules
    kept.write_text(json.dumps(asdict(trace)), "utf-8")
    return trace


def _trace(scratch: Scratch, folder: Path, jobs: int, tests: list[str]) -> Trace:
    shutil.rmtree(folder, ignore_errors=True)
    _run(scratch, folder, jobs, tests)
    interpreted = folder / "interpreted"
    engine = [path for path in tests if path.startswith(TESTS_OF_THE_ENGINE)]
    if any(TESTS_OF_THE_ENGINE.startswith(path) for path in tests):
        engine = [TESTS_OF_THE_ENGINE]
    if engine:
        _run(scratch, interpreted, jobs, engine, **{ENGINE_VARIABLE: INTERPRETED})
    trace = _outcomes(folder)
    # Tracing slows tests down, and some fail for that reason alone.
    trace.failing = [test for test in trace.failing if not passes(scratch, test)]
    _read_lines(trace, folder, scratch.folder, None)
    _read_lines(trace, interpreted, scratch.folder, ENGINE)
    return trace


def passes(scratch: Scratch, test: str) -> bool:
    """Whether a test passes in the tree."""
    command = [sys.executable, "-m", "pytest", test]
    return subprocess.run(command, cwd=scratch.folder, env=scratch.environment(), check=False).returncode == 0


def _run(scratch: Scratch, folder: Path, jobs: int, tests: list[str], **environment: str) -> None:
    folder.mkdir(parents=True)
    source = scratch.folder / "src" / "barnabas"
    (folder / "coverage.rc").write_text(COVERAGE_FILE.format(folder=folder, source=source), "utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        str(jobs),
        "--dist=load",
        "-p",
        "tools.mutants.plugin",
        *tests,
    ]
    variables = {TRACE_VARIABLE: str(folder), COVERAGE_VARIABLE: str(folder / "coverage.rc"), **environment}
    subprocess.run(command, cwd=scratch.folder, env=scratch.environment(**variables), check=False)


def _outcomes(folder: Path) -> Trace:
    seconds: defaultdict[str, float] = defaultdict(float)
    failing: set[str] = set()
    skipped: set[str] = set()
    for path in sorted(folder.glob("outcomes-*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            outcome = json.loads(line)
            seconds[outcome["test"]] += outcome["seconds"]
            if outcome["outcome"] == FAILED:
                failing.add(outcome["test"])
            elif outcome["outcome"] == "skipped":
                skipped.add(outcome["test"])
    tests = sorted(set(seconds) - skipped)
    return Trace(tests, [round(seconds[test], 3) for test in tests], sorted(failing))


def _read_lines(trace: Trace, folder: Path, root: Path, only: str | None) -> None:
    """Adds the data of coverage; a context is the test that ran the line or started the process that did."""
    numbers = {test: number for number, test in enumerate(trace.tests) if test not in trace.failing}
    for path in sorted(folder.glob(".coverage.*")):
        data = coverage.CoverageData(str(path))
        data.read()
        for name in data.measured_files():
            file = Path(name).relative_to(root).as_posix()
            if only is None or file.startswith(only):
                _add(trace.lines.setdefault(file, {}), data.contexts_by_lineno(name), numbers)


def _add(lines: dict[str, list[int]], contexts: dict[int, list[str]], numbers: dict[str, int]) -> None:
    for line, names in contexts.items():
        known = set(lines.get(str(line), ()))
        known.update(numbers[name] for name in names if name in numbers)
        if known:
            lines[str(line)] = sorted(known)
