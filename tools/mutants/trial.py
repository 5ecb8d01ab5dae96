"""Tries one mutant: runs the tests that could notice it, the likeliest first, until one fails."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from os import killpg
from pathlib import Path, PurePosixPath

from tools.mutants.plugin import PLAN_VARIABLE, REPORT_VARIABLE
from tools.mutants.scratch import Scratch, end_leftovers
from tools.mutants.source import Mutant
from tools.mutants.tracing import Trace

KILLED = "killed"
# The process hung or ended during a test.
CUT_SHORT = "cut short"
SURVIVED = "survived"
# The time limit of a test: far more than its usual duration, because the machine may be busy.
LEAST_LIMIT_S = 60.0
TIMES_SECONDS = 10.0
IMPORT_LIMIT_S = 300.0
# A failure that is not repeated was flaky: the test is excluded, and the others continue.
MOST_CHANCES = 3
ALL_PASSED = 0
NOTHING_TO_RUN = 5


@dataclass(slots=True)
class Verdict:
    """The outcome of a trial."""

    outcome: str
    by: str = ""
    # Tests that failed once, and passed when run again.
    chances: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a run of pytest: its exit code, the last test that started, and those that failed."""

    code: int
    last: str
    failed: list[str]


def try_mutant(mutant: Mutant, trace: Trace, scratch: Scratch, *, only_covering: bool = False) -> Verdict:
    """Runs the tests that cover the line first, then all others."""
    covering = trace.covering(mutant) - set(trace.failing)
    others = set(trace.tests) - covering - set(trace.failing)
    chances: list[str] = []
    with scratch.mutated_by(mutant):
        for tests in (covering, set() if only_covering else others):
            verdict = _stage(mutant, tests, trace, scratch, chances)
            if verdict is not None:
                return verdict
    return Verdict(SURVIVED, chances=chances)


def _stage(
    mutant: Mutant, tests: set[str], trace: Trace, scratch: Scratch, chances: list[str]
) -> Verdict | None:
    while left := tests - set(chances):
        ended = run_tests(scratch, in_order(left, mutant, trace), trace.seconds_of())
        if ended.code in (ALL_PASSED, NOTHING_TO_RUN):
            return None
        if not ended.failed:
            # If no test has started, an import failed.
            outcome = CUT_SHORT if ended.last else KILLED
            return Verdict(outcome, ended.last or "the collection of the tests", chances)
        by = ended.failed[0]
        if len(chances) >= MOST_CHANCES or run_tests(scratch, [by], trace.seconds_of()).code != ALL_PASSED:
            return Verdict(KILLED, by, chances)
        chances.append(by)
    return None


def in_order(tests: Iterable[str], mutant: Mutant, trace: Trace) -> list[str]:
    """By file, the likeliest first: the mirror of the source, its folder, then files that reach the line.

    A broker that several tests share has its lines attributed to the first test only, so the others in that
    file are likely too.  Otherwise fast files come first.
    """
    seconds = trace.seconds_of()
    reaching = {test.split("::")[0] for test in trace.covering(mutant)}
    files: dict[str, list[str]] = {}
    for test in sorted(tests):
        files.setdefault(test.split("::")[0], []).append(test)
    source = PurePosixPath(mutant.path)
    mirror = PurePosixPath("tests", *source.parts[2:-1])

    def rank(file: str) -> tuple[bool, bool, bool, bool, float]:
        path = PurePosixPath(file)
        return (
            path != mirror / f"test_{source.name}",
            path.parent != mirror,
            file not in reaching,
            path.parts[:2] != mirror.parts[:2],
            sum(seconds.get(test, 0.0) for test in files[file]),
        )

    return [test for file in sorted(files, key=rank) for test in files[file]]


def run_tests(scratch: Scratch, tests: list[str], seconds: dict[str, float]) -> Ended:
    """Runs these tests in a separate process, up to the first failure."""
    files = list(dict.fromkeys(test.split("::")[0] for test in tests))
    limits = {test: LEAST_LIMIT_S + TIMES_SECONDS * seconds.get(test, 0.0) for test in tests}
    plan = scratch.folder.with_name(f"{scratch.name}-plan.json")
    report = scratch.folder.with_name(f"{scratch.name}-report.jsonl")
    plan.write_text(json.dumps({"files": files, "limits": limits}), "utf-8")
    report.write_text("", "utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-p", "tools.mutants.plugin", *files]
    environment = scratch.environment(**{PLAN_VARIABLE: str(plan), REPORT_VARIABLE: str(report)})
    with scratch.folder.with_name(f"{scratch.name}-output.txt").open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=scratch.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        # A test that hangs ends its process; this covers a process that hangs before or after its tests.
        with suppress(subprocess.TimeoutExpired):
            process.wait(IMPORT_LIMIT_S + sum(limits.values()))
        with suppress(ProcessLookupError):
            killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        end_leftovers(scratch.folder)
    return read_report(report, code)


def read_report(report: Path, code: int) -> Ended:
    notes = [json.loads(line) for line in report.read_text("utf-8").splitlines()]
    began = [note["began"] for note in notes if "began" in note]
    return Ended(code, began[-1] if began else "", [note["failed"] for note in notes if "failed" in note])
