"""Tries one mutant: runs the tests that could notice it, the likeliest first, until one fails."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from os import killpg
from pathlib import Path, PurePosixPath
from time import monotonic

from tools.mutants.imports import Imports
from tools.mutants.plugin import PLAN_VARIABLE, REPORT_VARIABLE
from tools.mutants.scratch import Scratch, end_leftovers
from tools.mutants.source import Mutant
from tools.mutants.tracing import Trace, module_of

Reach = Trace | Imports

KILLED = "killed"
# The process ended during a test.
CRASHED = "crashed"
# A test exceeded its time limit.
TIMED_OUT = "timed out"
SURVIVED = "survived"
# The time limit of a test: far more than its usual duration, because the machine may be busy.
MIN_LIMIT_S = 60.0
TIMES_SECONDS = 10.0
# Without the mutant and under the same load, a test that timed out must take this many times less.
TIMES_CLEAN = 4.0
IMPORT_LIMIT_S = 300.0
UNLIMITED_S = 1e6
# A failure that is not repeated, or occurs without the mutant too, was flaky: the test is excluded, and the
# others continue.  A mutant with more of them counts as survived.
MAX_FLAKY = 5
# Instead of a test: the modules of tests could not be imported.
COLLECTION = "the collection of the tests"
ALL_PASSED = 0
# The exit code of pytest after a failure, and that of `faulthandler` after a time limit.
FAILED = 1
NOTHING_TO_RUN = 5
# Not an exit code: the stage has used its time.
OUT_OF_TIME = 1000
# Which tests are run before a mutant counts as survived: those that run the line (or import the file, if not
# traced); those of the same modules and folder, too; or all.
COVERING = "covering"
NEAR = "near"
ALL = "all"
EXTENTS = (COVERING, NEAR, ALL)


@dataclass(slots=True)
class Verdict:
    """The outcome of a trial."""

    outcome: str
    by: str = ""
    # Tests that failed once, and passed when run again.
    flaky: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a run of pytest: its exit code, the last test that started, and those that failed."""

    code: int
    last: str
    failed: list[str]


def try_mutant(
    mutant: Mutant,
    reach: Reach,
    scratch: Scratch,
    extent: str = ALL,
    also: Sequence[str] = (),
    stage_limit_s: float = UNLIMITED_S,
) -> Verdict:
    """Runs the tests that could notice the mutant, in the order of `EXTENTS`, or those below some paths.

    A stage that takes longer than its limit counts as passed.
    """
    flaky: list[str] = []
    stages = in_stages(mutant, reach)[: EXTENTS.index(extent) + 1]
    if also:
        passing = set(reach.tests) - set(reach.failing)
        stages = [{test for test in passing if test.startswith(tuple(also))}]
    while len(flaky) <= MAX_FLAKY:
        with scratch.mutated_by(mutant):
            verdict = _first_verdict(mutant, stages, reach, scratch, flaky, stage_limit_s)
        if verdict.by in ("", COLLECTION):
            return verdict
        with scratch.like_with(mutant):
            if is_due_to_mutant(verdict, scratch, reach):
                return verdict
        flaky.append(verdict.by)
    return Verdict(SURVIVED, flaky=flaky)


def in_stages(mutant: Mutant, reach: Reach) -> list[set[str]]:
    """The tests that cover the line, those near it, and all others."""
    passing = set(reach.tests) - set(reach.failing)
    covering = reach.covering(mutant) & passing
    near = reach.near(mutant) & passing
    return [covering, near - covering, passing - near - covering]


def is_due_to_mutant(verdict: Verdict, scratch: Scratch, reach: Reach) -> bool:
    """Whether the test passes without the mutant; if it timed out, in far less than its time limit.

    It runs now, so that a busy machine delays it alike.
    """
    start_s = monotonic()
    ended = run_tests(scratch, [verdict.by], reach.seconds_of())
    seconds = (monotonic() - start_s) * (TIMES_CLEAN if verdict.outcome == TIMED_OUT else 1)
    return ended.code == ALL_PASSED and seconds < time_limit_s(verdict.by, reach.seconds_of())


def _first_verdict(
    mutant: Mutant,
    stages: list[set[str]],
    reach: Reach,
    scratch: Scratch,
    flaky: list[str],
    stage_limit_s: float,
) -> Verdict:
    for tests in stages:
        while (left := tests - set(flaky)) and len(flaky) <= MAX_FLAKY:
            ended = run_tests(scratch, in_order(left, mutant, reach), reach.seconds_of(), stage_limit_s)
            if ended.code in (ALL_PASSED, NOTHING_TO_RUN, OUT_OF_TIME):
                break
            if not ended.failed:
                # If no test has started, an import failed.
                outcome = KILLED if not ended.last else TIMED_OUT if ended.code == FAILED else CRASHED
                return Verdict(outcome, ended.last or COLLECTION, flaky)
            by = ended.failed[0]
            if run_tests(scratch, [by], reach.seconds_of()).code != ALL_PASSED:
                return Verdict(KILLED, by, flaky)
            flaky.append(by)
    return Verdict(SURVIVED, flaky=flaky)


def in_order(tests: Iterable[str], mutant: Mutant, reach: Reach) -> list[str]:
    """By module, the likeliest first: the mirror of the source, its folder, then modules that reach the line.

    Otherwise those come first that mention the source, then fast ones.
    """
    seconds = reach.seconds_of()
    reaching = {module_of(test) for test in reach.covering(mutant)}
    files: dict[str, list[str]] = {}
    for test in sorted(tests):
        files.setdefault(module_of(test), []).append(test)
    source = PurePosixPath(mutant.path)
    mirror = PurePosixPath("tests", *source.parts[2:-1])

    def rank(file: str) -> tuple[bool, bool, bool, bool, int, float]:
        path = PurePosixPath(file)
        return (
            path != mirror / f"test_{source.name}",
            path.parent != mirror,
            file not in reaching,
            path.parts[:2] != mirror.parts[:2],
            -reach.mentions(file, mutant),
            sum(seconds.get(test, 0.0) for test in files[file]),
        )

    return [test for file in sorted(files, key=rank) for test in files[file]]


def time_limit_s(test: str, seconds: dict[str, float]) -> float:
    return MIN_LIMIT_S + TIMES_SECONDS * seconds.get(test, 0.0)


def run_tests(
    scratch: Scratch, tests: list[str], seconds: dict[str, float], limit_s: float = UNLIMITED_S
) -> Ended:
    """Runs these tests in a separate process, up to the first failure."""
    files = list(dict.fromkeys(module_of(test) for test in tests))
    limits = {test: time_limit_s(test, seconds) for test in tests}
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
        is_out_of_time = False
        try:
            process.wait(min(limit_s, IMPORT_LIMIT_S + sum(limits.values())))
        except subprocess.TimeoutExpired:
            is_out_of_time = limit_s < IMPORT_LIMIT_S + sum(limits.values())
        with suppress(ProcessLookupError):
            killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        end_leftovers(scratch.folder)
    return read_report(report, OUT_OF_TIME if is_out_of_time else code)


def read_report(report: Path, code: int) -> Ended:
    notes = [json.loads(line) for line in report.read_text("utf-8").splitlines()]
    began = [note["began"] for note in notes if "began" in note]
    return Ended(code, began[-1] if began else "", [note["failed"] for note in notes if "failed" in note])
