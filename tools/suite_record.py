"""The results of the clients' test suites, saved in docs/compatibility.json and shown in compatibility.md.

For one node, for a cluster of three and for one of three on ZooKeeper, for each suite and test: what Apache
Kafka (4.1.0, on ZooKeeper 3.9.1) does in up to three runs, and what barnabas does.  A test passes when it
passes in two of three runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tools.suite_results import FAILED, PASSED, SKIPPED, SUITE_NAMES, Results

MAX_RUNS = 3
ENOUGH = 2
APACHE, BARNABAS = "apache", "barnabas"
NOT_RUN = "not run"
KRAFT, ZOOKEEPER = "kraft", "zookeeper"


class Site(NamedTuple):
    """Where suites run."""

    nodes: int
    mode: str = KRAFT

    @property
    def apache_version(self) -> str:
        """With which Apache Kafka is compared; 3.9 is the last with ZooKeeper."""
        return "4.1.0" if self.mode == KRAFT else "3.9.1"


ONE, THREE, THREE_ON_ZOOKEEPER = Site(1), Site(3), Site(3, ZOOKEEPER)
# What they are called.
SITES = {ONE: "one node", THREE: "three nodes", THREE_ON_ZOOKEEPER: "three on ZooKeeper"}
_HOW = (
    "Two of three runs decide. `python -m tools.suites [--nodes 3] [--mode zookeeper] --apache SUITE...`"
    " records Apache Kafka's side."
)

_ABOUT = (
    "Written by `make suites`, `make suites NODES=3` and `make suites MODE=zookeeper` from",
    "[compatibility.json](compatibility.json); do not edit. Real clients' own test suites against Apache",
    "Kafka 4.1.0 (on ZooKeeper 3.9.1) and against barnabas, with the same settings: an authorizer, topics",
    "made on demand, four partitions each. On three nodes (each a broker and a controller, new for each",
    "suite; on ZooKeeper with an ensemble of three) topics have three replicas, and `min.insync.replicas`",
    "is 2.",
    "`librdkafka-three` has librdkafka's own tests that the suite for one node leaves out. A test passes",
    "when it does in two of three runs, or in the only one that [the record](compatibility.json) has;",
    "whatever passes on Apache Kafka is to pass here.",
    "",
    "On three nodes a few tests ask one broker for what another one was just told, and fail now and then on",
    "both sides: kafkajs `configs` and `txn sendOffsets`, confluent-python `scram`, kafka-python",
    "`test_alter_replica_log_dirs` and `test_delete_records`. franz-go's `Test848RegexBrokerResolves` counts",
    "records of `__consumer_offsets` for those of its own topics if they come first: alone, 8 of 20 runs",
    "fail on Apache Kafka, and 9 of 22 here.",
    "",
    "On ZooKeeper brokers serve LeaderAndIsr, which hostile's probe for it expects to be refused: it fails",
    "on both sides, with the same response.",
)


def verdict(outcomes: Iterable[str]) -> str:
    """The outcome of two of three runs, or of a single run."""
    given = list(outcomes)
    if not given:
        return NOT_RUN
    if len(given) == 1:
        return given[0]
    for word in (PASSED, SKIPPED):
        if given.count(word) >= ENOUGH:
            return word
    return FAILED


@dataclass
class Side:
    """The runs against one broker, by suite."""

    runs: dict[str, list[Results]] = field(default_factory=dict)
    # The version of the broker, by suite.
    versions: dict[str, str] = field(default_factory=dict)

    def verdicts(self, suite: str) -> dict[str, str]:
        runs = self.runs.get(suite, [])
        tests = sorted({test for run in runs for test in run})
        # A test that is missing in a run has not passed.
        return {test: verdict(run.get(test, FAILED) for run in runs) for test in tests}

    def is_decided(self, suite: str, wanted: Iterable[str]) -> bool:
        """Whether another run could not change the verdict."""
        runs = self.runs.get(suite, [])
        if len(runs) >= MAX_RUNS:
            return True
        if len(runs) < ENOUGH:
            return False
        return all(len({run.get(test, FAILED) for run in runs}) == 1 for test in wanted)


@dataclass
class Record:
    """Both sides, with clusters of one size."""

    apache: Side = field(default_factory=Side)
    barnabas: Side = field(default_factory=Side)

    def wanted(self, suite: str) -> list[str]:
        """The tests that must pass on barnabas: those that pass on Apache Kafka."""
        return [test for test, how in self.apache.verdicts(suite).items() if how == PASSED]

    def missing(self, suite: str) -> list[str]:
        ours = self.barnabas.verdicts(suite)
        return [test for test in self.wanted(suite) if ours.get(test) != PASSED]


# Saving -----------------------------------------------------------------------------------------------------

Records = dict[Site, Record]


def load(path: Path) -> Records:
    """The record of each site."""
    kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
    records = {}
    for site, name in SITES.items():
        sides = kept.get(name, {APACHE: {}, BARNABAS: {}})
        records[site] = Record(_side(sides[APACHE]), _side(sides[BARNABAS]))
    return records


def _side(kept: Mapping[str, Mapping[str, Mapping[str, str]]]) -> Side:
    side = Side()
    for suite, entry in kept.items():
        side.versions[suite] = str(entry["version"])
        outcomes = {test: words.split() for test, words in entry["tests"].items()}
        count = max((len(words) for words in outcomes.values()), default=0)
        side.runs[suite] = [
            {test: words[index] for test, words in outcomes.items() if index < len(words)}
            for index in range(count)
        ]
    return side


def save(path: Path, records: Records) -> None:
    kept: dict[str, object] = {"how": _HOW}
    for site, record in records.items():
        kept[SITES[site]] = {APACHE: _entries(record.apache), BARNABAS: _entries(record.barnabas)}
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _entries(side: Side) -> dict[str, object]:
    entries: dict[str, object] = {}
    for suite in SUITE_NAMES:
        runs = side.runs.get(suite)
        if not runs:
            continue
        tests = sorted({test for run in runs for test in run})
        entries[suite] = {
            "version": side.versions.get(suite, ""),
            "tests": {test: " ".join(run.get(test, FAILED) for run in runs) for test in tests},
        }
    return entries


# The page ---------------------------------------------------------------------------------------------------


def page(records: Records) -> str:
    """The whole page."""
    rows = ["# Compatibility", "", *_ABOUT, "", *_heading("suite", records, "passes there and not here")]
    for suite in SUITE_NAMES:
        counts = [
            _counted(side.verdicts(suite))
            for record in records.values()
            for side in (record.apache, record.barnabas)
        ]
        missing = sum(len(record.missing(suite)) for record in records.values())
        rows.append(f"| [{suite}](#{suite}) | {' | '.join(counts)} | {missing} |")
    for suite in SUITE_NAMES:
        rows += ["", f"## {suite}", "", *_test_rows(records, suite)]
    return "\n".join(rows) + "\n"


def _heading(first: str, records: Records, *last: str) -> list[str]:
    sides = [
        f"{who}, {SITES[site]}"
        for site in records
        for who in (f"Apache Kafka {site.apache_version}", "barnabas")
    ]
    columns = [first, *sides, *last]
    return [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]


def _counted(verdicts: Mapping[str, str]) -> str:
    words = list(verdicts.values())
    if not words:
        return NOT_RUN
    counts = [f"{words.count(word)} {word}" for word in (PASSED, FAILED, SKIPPED) if word in words]
    return ", ".join(counts)


def _test_rows(records: Records, suite: str) -> list[str]:
    sides = [(record.apache.verdicts(suite), record.barnabas.verdicts(suite)) for record in records.values()]
    rows = _heading("test", records)
    for test in sorted({test for side in sides for verdicts in side for test in verdicts}):
        words = []
        for theirs, ours in sides:
            there, here = theirs.get(test, NOT_RUN), ours.get(test, NOT_RUN)
            words += [there, f"**{here}**" if there == PASSED and here != PASSED else here]
        shown = test.replace("|", "\\|")
        rows.append(f"| `{shown}` | {' | '.join(words)} |")
    return rows
