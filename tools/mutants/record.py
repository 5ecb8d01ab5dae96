"""The results: saved one by one, so that a run can be resumed, and shown in docs/mutants.md."""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tools.mutants.source import Mutant
from tools.mutants.trial import ALL, COVERING, CRASHED, NEAR, SURVIVED, TIMED_OUT, UNLIMITED_S, Verdict

SURVIVAL = {
    ALL: "A mutant survives if all tests pass.",
    NEAR: "A mutant survives if all tests of its package pass, and of the modules that reach the line.",
    COVERING: "A mutant survives if all tests that reach the line pass.",
}


@dataclass(slots=True)
class Result:
    """A mutant and its outcome."""

    key: str
    path: str
    line: int
    package: str
    operator: str
    diff: str
    outcome: str
    by: str
    flaky: list[str] = field(default_factory=list)

    @property
    def new(self) -> str:
        """The first line that the mutant adds."""
        added = (line for line in self.diff.splitlines() if line.startswith("+"))
        return next(added, "+")[1:].strip()

    @property
    def is_killed(self) -> bool:
        return self.outcome != SURVIVED


@dataclass(slots=True)
class Record:
    """One campaign: the tree, the seed, and the results so far."""

    commit: str
    tree: str
    seed: int
    count: int
    tests: int
    # Tests that fail without a mutant; they are excluded.
    failing: list[str]
    # Which tests were run before a mutant counted as survived: see `trial.EXTENTS`.
    extent: str = ALL
    # The time of each stage of a trial, if it was limited.
    stage_limit_s: float = UNLIMITED_S
    results: list[Result] = field(default_factory=list)

    def is_same_campaign(self, other: Record) -> bool:
        return (self.tree, self.seed, self.count) == (other.tree, other.seed, other.count)

    def packages(self) -> dict[str, list[Result]]:
        packages: defaultdict[str, list[Result]] = defaultdict(list)
        for result in self.results:
            packages[result.package].append(result)
        return dict(sorted(packages.items()))


def result_of(mutant: Mutant, text: str, verdict: Verdict) -> Result:
    return Result(
        mutant.key,
        mutant.path,
        mutant.line,
        mutant.package,
        mutant.operator,
        mutant.diff(text),
        verdict.outcome,
        verdict.by,
        verdict.flaky,
    )


def load(path: Path) -> Record | None:
    """The saved record, or None."""
    if not path.exists():
        return None
    read = json.loads(path.read_text("utf-8"))
    results = [Result(**each) for each in read.pop("results")]
    return Record(**read, results=results)


def save(path: Path, record: Record) -> None:
    """Written atomically: a run may be interrupted at any time."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(asdict(record), indent=1) + "\n", "utf-8")
    partial.replace(path)


def percent(results: list[Result]) -> str:
    killed = sum(result.is_killed for result in results)
    return f"{killed} of {len(results)} ({100 * killed // max(1, len(results))} %)"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a mutant survives.  One that changes nothing that anything depends on is no fault."""

    text: str
    is_equivalent: bool


# By file and new text: line numbers would not outlive the next change.
Reasons = Mapping[tuple[str, str], Reason]


def load_reasons(path: Path) -> Reasons:
    if not path.exists():
        return {}
    read = tomllib.loads(path.read_text("utf-8"))
    return {
        (each["file"], each["new"]): Reason(each["reason"], each.get("equivalent", False))
        for each in read["survivor"]
    }


def page(record: Record, reasons: Reasons) -> str:
    """docs/mutants.md."""

    def faults(results: list[Result]) -> list[Result]:
        return [each for each in results if each.is_killed or not is_equivalent(each)]

    def is_equivalent(result: Result) -> bool:
        reason = reasons.get((result.path, result.new))
        return reason is not None and reason.is_equivalent

    timed_out = sum(result.outcome == TIMED_OUT for result in record.results)
    crashed = sum(result.outcome == CRASHED for result in record.results)
    lines = [
        "# Mutants",
        "",
        "Written by `make mutants`: random faults were planted in `src/barnabas`, one at a time, and the",
        "tests run against each. A seed chooses the faults: at least five from every package, the kind of",
        "fault before the place. A mutant is killed if a test fails twice with it and passes without it. A",
        "test that exceeds its time limit counts only if it takes less than a quarter of it without the",
        "mutant. A mutant that changes nothing that a user, a client or another part could see is no fault.",
        "",
        f"Commit {record.commit}, seed {record.seed}, {record.tests} tests. {SURVIVAL[record.extent]}",
        *_limit(record),
        "",
        f"**Killed: {percent(faults(record.results))} of the faults**, {percent(record.results)} of all",
        f"mutants; {timed_out} by a time limit, {crashed} by a crash.",
        "",
        "| package | faults killed | mutants killed |",
        "|---|---|---|",
        *(
            f"| `{name}` | {percent(faults(results))} | {percent(results)} |"
            for name, results in record.packages().items()
        ),
        "",
    ]
    survivors = sorted(
        (result for result in record.results if not result.is_killed), key=lambda each: (each.path, each.line)
    )
    lines += ["## Survivors", "", *_listed([each for each in survivors if not is_equivalent(each)], reasons)]
    lines += ["## Without effect", "", *_listed([each for each in survivors if is_equivalent(each)], reasons)]
    if record.failing:
        lines += ["## Left out", "", "These tests fail without a mutant.", ""]
        lines += [*(f"- `{test}`" for test in record.failing), ""]
    return "\n".join(lines)


def _limit(record: Record) -> list[str]:
    if record.stage_limit_s >= UNLIMITED_S:
        return []
    return [f"Each mutant had {record.stage_limit_s:.0f} s for each of these two groups of tests."]


def _listed(results: list[Result], reasons: Reasons) -> list[str]:
    lines = []
    for result in results:
        lines += [f"`{result.path}:{result.line}` ({result.operator})", "", "```diff", result.diff, "```", ""]
        if reason := reasons.get((result.path, result.new)):
            lines += [reason.text, ""]
    return lines or ["None.", ""]
