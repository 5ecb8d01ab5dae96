"""`make verify`: checks barnabas against Apache Kafka and writes docs/verified.md.

The page shows for each part which commit was checked, against which versions, how many checks passed, and
that none was skipped: a skipped check is not green, so a single skip fails the run.  A part is written only
if all of it is green; `make verify PART=broker` runs one.  The oracle is the script that BARNABAS_ORACLE
names.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[1]
CHECKS = PROJECT / "tests" / "verify"
PAGE = PROJECT / "docs" / "verified.md"
# The data of the page, so that parts can be run one by one.
DATA = PROJECT / "docs" / "verified.json"
KAFKA_VERSIONS = "4.1.0 and 4.3.1 (KRaft) and 3.9.1 (ZooKeeper mode)"
OUTCOMES = ("passed", "failed", "skipped")
# Part: its title and the prefixes of its files; the first part has all other files.
PARTS = {
    "broker": ("Formats, log, broker, groups and transactions", ()),
    "quorum": ("The metadata quorum, together with Apache Kafka's", ("test_quorum_",)),
    "cluster": ("Replication, together with Apache Kafka's brokers", ("test_replication_",)),
    "zookeeper": ("ZooKeeper mode, together with Apache Kafka's brokers", ("test_zookeeper_",)),
    "security": ("TLS, SASL and ACLs, together with Apache Kafka's nodes and tools", ("test_security_",)),
    "tools": ("Client and command line", ("test_cli_", "test_client_")),
    "kit": ("The test kit", ("test_kit_",)),
    "spark": ("Spark", ("test_spark_",)),
}


class Counts:
    """Counts outcomes by test file; a check that fails during setup counts as failed."""

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

    written = [f":!docs/{path.name}" for path in (PAGE, DATA)]
    dirty = git("status", "--porcelain", "--untracked-files=no", "--", ".", *written)
    return git("rev-parse", "--short=12", "HEAD") + (" with uncommitted changes" if dirty else "")


def files_of(part: str) -> list[Path]:
    """The test files of a part."""
    special = tuple(start for _, starts in PARTS.values() for start in starts)
    starts = PARTS[part][1]
    return [
        path
        for path in sorted(CHECKS.rglob("test_*.py"))
        if (path.name.startswith(starts) if starts else not path.name.startswith(special))
    ]


def page(parts: dict[str, Any]) -> str:
    totals = [
        sum(counts[outcome] for part in parts.values() for counts in part["files"].values())
        for outcome in OUTCOMES
    ]
    lines = [
        "# Verified against Apache Kafka",
        "",
        "Written by `make verify`; do not edit. Each file is a set of checks in `tests/verify/` that runs",
        "Apache Kafka on barnabas' data, or barnabas on Apache Kafka's.",
        "",
        f"- Apache Kafka: {KAFKA_VERSIONS}",
        "- **"
        + ", ".join(f"{total} {outcome}" for total, outcome in zip(totals, OUTCOMES, strict=True))
        + "**",
    ]
    for name, (title, _) in PARTS.items():
        if name in parts:
            lines += _section(title, parts[name])
    return "\n".join(lines) + "\n"


def _section(title: str, part: dict[str, Any]) -> list[str]:
    lines = [
        "",
        f"## {title}",
        "",
        f"Commit `{part['commit']}`, {part['date']}, Python {part['python']}, took {part['seconds']} s.",
        "",
        "| checks | passed | failed | skipped |",
        "|---|---:|---:|---:|",
    ]
    for name, counts in sorted(part["files"].items()):
        lines.append(f"| `{name}` | " + " | ".join(str(counts[outcome]) for outcome in OUTCOMES) + " |")
    return lines


def run_part(part: str, of_commit: str, arguments: list[str]) -> int:
    """Runs the checks of a part; records the result if all are green."""
    counts = Counts()
    started = time.monotonic()
    options = ["-o", "addopts=-q --strict-markers -p no:cacheprovider"]
    status = int(pytest.main([*options, *map(str, files_of(part)), *arguments], plugins=[counts]))
    if counts.total("skipped"):
        print("skipped checks are not green: set BARNABAS_ORACLE to Apache Kafka's oracle", file=sys.stderr)
        return 1
    if status == 0 and not arguments:
        record(part, counts, of_commit, time.monotonic() - started)
    return status


def record(part: str, counts: Counts, of_commit: str, seconds: float) -> None:
    parts = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {}
    parts[part] = {
        "commit": of_commit,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": f"{platform.python_version()} on {platform.system()}",
        "seconds": round(seconds),
        "files": {
            name: {outcome: found[outcome] for outcome in OUTCOMES} for name, found in counts.by_file.items()
        },
    }
    DATA.write_text(json.dumps(parts, indent=1, sort_keys=True) + "\n", "utf-8")
    PAGE.write_text(page(parts), "utf-8")


def main() -> int:
    parts = [name for name in sys.argv[1:] if name in PARTS]
    arguments = [argument for argument in sys.argv[1:] if argument not in PARTS]
    of_commit = commit()
    # Each part runs in its own process: Spark and others leave threads behind.
    if len(parts) == 1:
        return run_part(parts[0], of_commit, arguments)
    command = [sys.executable, "-m", "tools.verify"]
    return max(subprocess.call([*command, part, *arguments], cwd=PROJECT) for part in parts or PARTS)


if __name__ == "__main__":
    sys.exit(main())
