"""The results of all runs: docs/nemesis.json, shown in docs/nemesis.md."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path

from tools.nemesis.run import Outcome

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "nemesis.md"
RESULTS = PAGE.with_suffix(".json")

COLUMNS = (
    "Seed",
    "Nodes",
    "Seconds",
    "Faults",
    "Acknowledged",
    "Committed",
    "Aborted",
    "Unknown",
    "Polled",
    "Anomalies",
    "Gap",
    "Ended",
    "G0",
    "Version",
    "Remarks",
)

INTRODUCTION = """# Process faults

Written by `make nemesis`. Each run starts a cluster of real processes (three replicas,
`min.insync.replicas` 2) and lets real clients work with it: idempotent and transactional producers with
acks=all, an application that copies exactly once, readers of both isolation levels and consumer groups,
by confluent-kafka and by our own client. It injects faults that a seed has drawn, heals everything, reads
every partition, and checks the history of all clients (`src/barnabas/testing/histories/`) for lost
writes, aborted reads, inconsistent offsets, duplicates, torn transactions, poll skips, non-monotonic
polls, inverted write order, reads before commit, phantom reads, G0 and G1c. After the run the replicas of
every partition must be equal byte for byte.

Apache Kafka runs under the same faults as a control: a checker that finds anomalies there is too strict.

G0 is counted, and no anomaly: Apache Kafka does not isolate transactions that write at the same time, and
Jepsen allows it too. "Gap" is the longest time without an acknowledged record, of all producers together;
it includes faults of two nodes at once, and of all. "Ended" counts nodes that stopped because their disk
failed, as they should. A full disk ends a node only if its metadata log, which is on that disk, has no space
either: on every other node a little is left, and it must go on.

Two faults of librdkafka 2.16 show in the remarks. `tests/verify/replication/test_replication_librdkafka.py`
has both on Apache Kafka 4.1.0 too, which answers as barnabas does:

- `send_offsets_to_transaction` does not return, whatever its time limit: a broker that metadata lacked for a
  moment is decommissioned, and remains the group coordinator that the call waits for (librdkafka issues 5511
  and 5456). The application gives up after 30 s and creates its client again.
- Records are there twice: a request is written and its acknowledgement lost, its retry is refused with
  NOT_ENOUGH_REPLICAS, and one that follows gets OUT_OF_ORDER_SEQUENCE_NUMBER, since the in-sync replicas are
  back. librdkafka takes the refused records for unwritten, bumps its epoch and sends them with new sequence
  numbers, by which no broker can know them. Copies count as "sent again" only if the log has them with
  different producer ids or epochs; any other is a duplicate, and an anomaly.

The second is rare. Version 214f026 had three such records with five nodes and seed 102; the logs of that run
were not kept, so that its cause is inferred, and later runs of the seed had none. Under 30 kills of all nodes
librdkafka bumped its epoch once, after these answers, which the logs show to be right: the sequence number
before the refused ones was the last in the log, and nothing was there twice.

A third one stopped a whole run of `make verify PART=cluster` on a busy machine: a rebalance that waited when
a consumer was closed hung in `rd_kafka_assign()` (librdkafka issue 4884), with Python's interpreter lock
held, so that every client of the process stood still; the stacks of its threads show it. Consumers of the
load therefore give their partitions back before they are closed.
"""


def load() -> list[Outcome]:
    if not RESULTS.exists():
        return []
    names = {each.name for each in fields(Outcome)}
    rows = json.loads(RESULTS.read_text("utf-8"))
    return [Outcome(**{name: value for name, value in row.items() if name in names}) for row in rows]


def save(outcomes: Iterable[Outcome]) -> None:
    """Adds runs; one with the same system, size, length and seed is replaced."""
    rows = {(each.system, each.nodes, each.seconds, each.seed): each for each in [*load(), *outcomes]}
    ordered = [rows[key] for key in sorted(rows)]
    RESULTS.write_text(json.dumps([each.to_json() for each in ordered], indent=1) + "\n", "utf-8")
    PAGE.write_text(page(ordered), "utf-8")


def page(outcomes: list[Outcome]) -> str:
    parts = [INTRODUCTION]
    for system in sorted({each.system for each in outcomes}, key=lambda name: (name != "barnabas", name)):
        chosen = [each for each in outcomes if each.system == system]
        parts += [f"\n## {system[0].upper()}{system[1:]}\n\n", _summary(chosen), _table(chosen)]
    parts.append(_unavailable(outcomes))
    return "".join(parts)


def _summary(outcomes: list[Outcome]) -> str:
    clean = sum(each.is_clean for each in outcomes)
    faults = sum(sum(each.faults.values()) for each in outcomes)
    acknowledged = sum(each.totals.get("acknowledged", 0) for each in outcomes)
    return (
        f"{len(outcomes)} runs, {clean} of them clean; {faults} faults, {acknowledged:,} records "
        f"acknowledged, {sum(sum(each.anomalies.values()) for each in outcomes)} anomalies.\n\n"
    )


def _table(outcomes: list[Outcome]) -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for each in outcomes:
        totals = each.totals
        cells = [
            each.seed,
            each.nodes,
            each.seconds,
            f"{sum(each.faults.values())}: {_counts(each.faults)}",
            f"{totals.get('acknowledged', 0):,}",
            f"{totals.get('transactions committed', 0):,}",
            f"{totals.get('aborted', 0):,}",
            f"{totals.get('unknown', 0):,}",
            f"{totals.get('polled', 0):,}",
            "; ".join([*([_counts(each.anomalies)] if each.anomalies else []), *each.problems]) or "0",
            f"{each.longest_gap_s:.1f} s",
            each.ended_nodes,
            each.allowed.get("G0", 0),
            each.version,
            "; ".join(each.remarks),
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def _unavailable(outcomes: list[Outcome]) -> str:
    reasons = {kind: reason for each in outcomes for kind, reason in each.unavailable.items()}
    if not reasons:
        return "\nAll kinds of fault were available.\n"
    return "\n## Not available here\n\n" + "".join(
        f"- {kind}: {reason}\n" for kind, reason in sorted(reasons.items())
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" if count > 1 else name for name, count in sorted(counts.items()))


def version() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
