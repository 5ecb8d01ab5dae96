"""`make verify`: hold our work against real Apache Kafka and write docs/verified.md.

The page says which commit was checked, against which versions, how many checks passed, and that none was
skipped: a skipped check is not a green one, so a single skip fails the run.  It is written only when all is
green; the oracle is the script that BARNABAS_ORACLE names.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs" / "verified.md"
KAFKA_VERSIONS = "4.1.0 (KRaft) and 3.9.1 (ZooKeeper mode)"
OUTCOMES = ("passed", "failed", "skipped")


class Counts:
    """Collects outcomes by test file; a check that fails in set-up counts as failed."""

    def __init__(self) -> None:
        self.by_file: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            name = report.nodeid.split("::")[0].rpartition("/")[2]
            self.by_file[name][report.outcome] += 1

    def total(self, outcome: str) -> int:
        return sum(counter[outcome] for counter in self.by_file.values())


def commit() -> str:
    def git(*args: str) -> str:
        done = subprocess.run(["git", *args], cwd=PROJECT, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    dirty = git("status", "--porcelain", "--untracked-files=no", "--", ":!docs/verified.md")
    return git("rev-parse", "--short=12", "HEAD") + (" with uncommitted changes" if dirty else "")


def page(counts: Counts, of_commit: str, seconds: float) -> str:
    lines = [
        "# Verified against Apache Kafka",
        "",
        "Written by `make verify`; do not edit. Each file is a set of checks in `tests/verify/` that runs",
        "real Apache Kafka software on our bytes, or ours on its.",
        "",
        f"- commit: `{of_commit}`",
        f"- Apache Kafka: {KAFKA_VERSIONS}",
        f"- Python: {platform.python_version()} on {platform.system()}",
        f"- date: {time.strftime('%Y-%m-%d', time.gmtime())}, took {seconds:.0f} s",
        "- **" + ", ".join(f"{counts.total(outcome)} {outcome}" for outcome in OUTCOMES) + "**",
        "",
        "| checks | passed | failed | skipped |",
        "|---|---:|---:|---:|",
    ]
    for name in sorted(counts.by_file):
        counter = counts.by_file[name]
        cells = " | ".join(str(counter[outcome]) for outcome in OUTCOMES)
        lines.append(f"| `{name}` | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    of_commit = commit()
    counts = Counts()
    started = time.monotonic()
    arguments = sys.argv[1:]
    status = pytest.main(
        [
            "-o",
            "addopts=-q --strict-markers -p no:cacheprovider",
            str(PROJECT / "tests" / "verify"),
            *arguments,
        ],
        plugins=[counts],
    )
    if counts.total("skipped"):
        print("skipped checks are not green: set BARNABAS_ORACLE to Apache Kafka's oracle", file=sys.stderr)
        return 1
    if status == 0 and not arguments:
        PAGE.write_text(page(counts, of_commit, time.monotonic() - started))
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
