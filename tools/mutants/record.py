"""The results: saved one by one, so that a run can be resumed, and shown in docs/mutants.md."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tools.mutants.source import Mutant
from tools.mutants.trial import SURVIVED, Verdict


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
    chances: list[str] = field(default_factory=list)

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
        verdict.chances,
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


def page(record: Record) -> str:
    """docs/mutants.md."""
    survivors = [result for result in record.results if not result.is_killed]
    lines = [
        "# Mutants",
        "",
        "Written by `make mutants`: random faults were planted in `src/barnabas`, one at a time, and the",
        "tests run against each. A mutant is killed if a test hangs, or fails twice.",
        "",
        f"Commit {record.commit}, seed {record.seed}, {record.tests} tests.",
        "",
        f"**Killed: {percent(record.results)}.**",
        "",
        "| package | killed |",
        "|---|---|",
        *(f"| `{name}` | {percent(results)} |" for name, results in record.packages().items()),
        "",
        "## Survivors",
        "",
    ]
    for result in sorted(survivors, key=lambda each: (each.path, each.line)):
        lines += [f"`{result.path}:{result.line}` ({result.operator})", "", "```diff", result.diff, "```", ""]
    if not survivors:
        lines += ["None.", ""]
    if record.failing:
        lines += ["## Left out", "", "These tests fail without a mutant.", ""]
        lines += [*(f"- `{test}`" for test in record.failing), ""]
    return "\n".join(lines)
