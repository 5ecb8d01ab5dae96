"""The kinds of anomaly, and the report of a check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

# How many anomalies of a kind are kept; all are counted.
MAX_KEPT = 20


class Anomaly(StrEnum):
    """The names follow Jepsen's kafka workload and Adya's G0, G1a and G1c."""

    LOST_WRITE = "lost write"
    ABORTED_READ = "aborted read"
    INCONSISTENT_OFFSET = "inconsistent offset"
    DUPLICATE = "duplicate"
    SENT_AGAIN = "sent again"
    TORN_TRANSACTION = "torn transaction"
    POLL_SKIP = "poll skip"
    NON_MONOTONIC_POLL = "non-monotonic poll"
    WRITE_ORDER_INVERTED = "write order inverted"
    READ_BEFORE_COMMIT = "read before commit"
    PHANTOM_READ = "phantom read"
    G0 = "G0"
    G1C = "G1c"


MEANINGS: dict[Anomaly, str] = {
    Anomaly.LOST_WRITE: "a value that was acknowledged (in a transaction: and committed) or read is missing",
    Anomaly.ABORTED_READ: "a value was read whose transaction did not commit, or whose send failed (G1a)",
    Anomaly.INCONSISTENT_OFFSET: "two values were seen at one offset of a partition",
    Anomaly.DUPLICATE: "a value of an idempotent producer is at two offsets, or an input has two outputs",
    Anomaly.SENT_AGAIN: "a value is at two offsets because its client sent it again as a new one",
    Anomaly.TORN_TRANSACTION: "some values of a transaction are visible and others are not, or the offsets "
    "of its input were committed without its output",
    Anomaly.POLL_SKIP: "a consumer or a group was not given a record between two that it was given",
    Anomaly.NON_MONOTONIC_POLL: "a consumer was given a record at or before its previous one",
    Anomaly.WRITE_ORDER_INVERTED: "a value has a lower offset than one that was acknowledged before it was "
    "sent, or than an earlier one of its producer",
    Anomaly.READ_BEFORE_COMMIT: "a read_committed consumer was given a value before its commit was requested",
    Anomaly.PHANTOM_READ: "a value was read that nobody sent",
    Anomaly.G0: "transactions overwrite each other in a circle",
    Anomaly.G1C: "transactions have read each other's values in a circle",
}

# Apache Kafka does not isolate transactions that write at the same time: two of them may append to two
# partitions in different order.  Jepsen allows G0 for the same reason.
# No cluster can tell that what a client sends with a new producer epoch is a record that it has already.
ALLOWED: frozenset[Anomaly] = frozenset({Anomaly.G0, Anomaly.SENT_AGAIN})


@dataclass(frozen=True, slots=True)
class Finding:
    """One anomaly."""

    kind: Anomaly
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass
class Report:
    """What a check found.  `counts` has all findings; `findings` the first of each kind."""

    allowed: frozenset[Anomaly] = ALLOWED
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[Anomaly] = field(default_factory=Counter)
    # How many values were sent, acknowledged, …: an empty history has no anomalies either.
    totals: Counter[str] = field(default_factory=Counter)

    def add(self, kind: Anomaly, text: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= MAX_KEPT:
            self.findings.append(Finding(kind, text))

    @property
    def kinds(self) -> frozenset[Anomaly]:
        """The kinds that are not allowed."""
        return frozenset(self.counts) - self.allowed

    @property
    def is_clean(self) -> bool:
        return not self.kinds

    @property
    def anomalies(self) -> int:
        """How many anomalies that are not allowed."""
        return sum(self.counts[kind] for kind in self.kinds)

    def lines(self) -> Sequence[str]:
        """For people: the totals, the counts, the findings."""
        totals = ", ".join(f"{count} {name}" for name, count in self.totals.items())
        counts = [
            f"{count} x {kind}{' (allowed)' if kind in self.allowed else ''}: {MEANINGS[kind]}"
            for kind, count in sorted(self.counts.items())
        ]
        shown = [f"  {finding}" for finding in self.findings if finding.kind not in self.allowed]
        return [totals, *(counts or ["no anomalies"]), *shown]
