"""Exactly-once, without IO: a driver's decisions, from the last decision, open transactions and task reports.

Contains the data of the protocol and all of its choices.  Requests belong in `calls`, their order in
`driver`.

Every task writes in its own transaction and leaves it open.  The driver writes one record with the list of
them, the decision, in its own transaction; from then on they must be committed, by whichever driver is
running.  Before each batch the driver takes over the sink's transactional id, which fences older drivers, and
completes the last decision.  docs/explanation/exactly-once-sink.md explains why this holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

ID_PREFIX = "barnabas-sink-"
FORMAT = 1
# The number of alternatives for a transactional id that is in use.
MAX_SPARE_IDS = 8


class BrokenPromiseError(Exception):
    """Exactly-once cannot be kept, or only by running the batch again; the text says which."""


@dataclass(frozen=True, slots=True)
class Written:
    """The rows of one producer in a partition; rows of others may lie between them."""

    topic: str
    partition: int
    first: int
    last: int
    count: int

    def and_also(self, other: Written) -> Written:
        first, last = min(self.first, other.first), max(self.last, other.last)
        return Written(self.topic, self.partition, first, last, self.count + other.count)


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A task's transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    written: tuple[Written, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """The transactions that make up a batch of a query: they must be committed."""

    query: str
    batch: int
    # Whether epochs grow with every transaction (KIP-890): a repeated EndTxn must be of the same kind.
    implicit: bool
    transactions: tuple[OpenTransaction, ...]
    # For batch writes with a number: the topic, and the run of the query.  Spark repeats no batch within one
    # run, so a second write with the same number is a different one, not a repetition.
    topic: str = ""
    run: str = ""

    def covers(self, query: str, batch: int) -> bool:
        """Whether a batch is in the output already; batches of one query are decided in order."""
        return self.query == query and batch <= self.batch

    def check_repeat(self, sink: str, topic: str, run: str) -> None:
        """Raise BrokenPromiseError if a second write of a decided batch cannot be a repetition."""
        is_elsewhere = topic and self.topic and topic != self.topic
        if is_elsewhere or (run and run == self.run):
            target = f"to {topic}, after that to {self.topic}," if is_elsewhere else "of the same batch"
            raise BrokenPromiseError(
                f"batch {self.batch} of the sink {sink} is written already, and a second write {target} "
                "would "
                "be skipped: give each write in a batch a sinkId of its own"
            )

    def without(self, repaired: Iterable[OpenTransaction]) -> Decision:
        removed = set(repaired)
        return replace(
            self,
            transactions=tuple(
                transaction for transaction in self.transactions if transaction not in removed
            ),
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The driver's state at the start of a batch; tasks carry it back to the driver that commits."""

    sink: str
    producer_id: int
    producer_epoch: int
    implicit: bool
    # The last decision, without its transactions.
    decided: Decision | None

    def covers(self, query: str, batch: int) -> bool:
        return self.decided is not None and self.decided.covers(query, batch)


@dataclass(frozen=True, slots=True)
class Report:
    """A task's report to the driver.  No transaction means no rows, or a batch that was done before."""

    plan: Plan
    query: str
    batch: int
    transaction: OpenTransaction | None
    topic: str = ""
    run: str = ""


# ------------------------------------------------------------------------------------------------------ names


def driver_id(sink: str) -> str:
    return f"{ID_PREFIX}{sink}-driver"


def task_id(sink: str, partition: int, attempt: int, spare: int = 0) -> str:
    """Includes the attempt number, so that a speculative copy does not abort the one that has won."""
    name = f"{ID_PREFIX}{sink}-t{partition}-a{attempt}"
    return name if spare == 0 else f"{name}-x{spare}"


def task_id_pattern(sink: str) -> str:
    """Return a pattern for the transactional ids of a sink's tasks, and of no other sink."""
    return f"^{re.escape(ID_PREFIX + sink)}-t[0-9]+-a[0-9]+(-x[0-9]+)?$"


# -------------------------------------------------------------------------------------------- control records


def encode(decision: Decision) -> bytes:
    """Return the value of a control record."""
    content = {
        "format": FORMAT,
        "query": decision.query,
        "batch": decision.batch,
        "implicit": decision.implicit,
        "topic": decision.topic,
        "run": decision.run,
        "transactions": [
            [
                transaction.transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                [[w.topic, w.partition, w.first, w.last, w.count] for w in transaction.written],
            ]
            for transaction in decision.transactions
        ],
    }
    return json.dumps(content, separators=(",", ":")).encode()


def decode(value: bytes, sink: str) -> Decision:
    """Return the decision in a control record."""
    try:
        content: Any = json.loads(value)
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']}")
        return Decision(
            str(content["query"]),
            int(content["batch"]),
            bool(content["implicit"]),
            tuple(
                OpenTransaction(name, producer_id, epoch, tuple(Written(*each) for each in written))
                for name, producer_id, epoch, written in content["transactions"]
            ),
            str(content.get("topic", "")),
            str(content.get("run", "")),
        )
    except (ValueError, LookupError, TypeError) as error:
        raise BrokenPromiseError(
            f"the control record of the sink {sink} cannot be read ({error}): it was written by a newer "
            "barnabas, or by another program; use another sinkId or controlTopic"
        ) from error


# --------------------------------------------------------------------------------- from reports to a decision


def decide(reports: Sequence[Report | None]) -> tuple[Plan, Decision] | None:
    """Return the decision for a batch; None if no rows were written, or the batch was done before."""
    known = [report for report in reports if report is not None]
    if len(known) < len(reports):
        raise BrokenPromiseError("a task has not reported: the batch cannot be committed")
    transactions = tuple(report.transaction for report in known if report.transaction is not None)
    if not transactions:
        return None
    first = known[0]
    if any(
        (report.plan, report.query, report.batch) != (first.plan, first.query, first.batch)
        for report in known
    ):
        raise BrokenPromiseError("tasks of different batches have reported: the batch must be run again")
    if first.plan.covers(first.query, first.batch):
        raise BrokenPromiseError(
            f"batch {first.batch} is decided, yet rows were written for it: it must be run again"
        )
    if len({transaction.transactional_id for transaction in transactions}) < len(transactions):
        raise BrokenPromiseError("two tasks have the same transactional id: the batch must be run again")
    decision = Decision(first.query, first.batch, first.plan.implicit, transactions, first.topic, first.run)
    return first.plan, decision


def to_abort(reports: Sequence[Report | None]) -> tuple[OpenTransaction, ...]:
    """Return what may be aborted when Spark abandons a batch.

    Spark also does so when commit() has raised, perhaps after the decision; then all tasks have reported, and
    only the next plan can tell.  If a report is missing, commit() was never called.
    """
    if None not in reports:
        return ()
    return tuple(
        report.transaction for report in reports if report is not None and report.transaction is not None
    )


# ----------------------------------------------------------------------------------------- transaction states


@dataclass(frozen=True, slots=True)
class Seen:
    """A transactional id as its coordinator describes it."""

    state: str
    producer_id: int
    producer_epoch: int


class Ending(Enum):
    """What remains to be done for a decided transaction."""

    COMMIT = "commit it"
    DONE = "it is committed"
    LOOK = "its coordinator no longer knows it: the log shows its outcome"


def unfit(decision: Decision, seen: Mapping[str, Seen]) -> list[str]:
    """Return transactions that are no longer open as the tasks left them: they cannot be part of a
    decision."""
    return [
        transaction.transactional_id
        for transaction in decision.transactions
        if seen.get(transaction.transactional_id)
        != Seen("Ongoing", transaction.producer_id, transaction.producer_epoch)
    ]


def ending(open_transaction: OpenTransaction, seen: Seen | None, *, implicit: bool) -> Ending:
    """Return what remains to be done, as far as the coordinator's state is conclusive."""
    if seen == Seen("Ongoing", open_transaction.producer_id, open_transaction.producer_epoch):
        return Ending.COMMIT
    if seen is not None and seen.state in ("PrepareCommit", "CompleteCommit"):
        # With KIP-890 the commit has bumped the epoch; any other epoch may be a later transaction's.
        ended_epoch = open_transaction.producer_epoch + 1 if implicit else open_transaction.producer_epoch
        if (seen.producer_id, seen.producer_epoch) == (open_transaction.producer_id, ended_epoch):
            return Ending.DONE
    return Ending.LOOK


def to_sweep(sink: str, ongoing: Iterable[str]) -> list[str]:
    """Return orphaned open transactions of the sink: of dead drivers, lost tasks, losing copies.

    Valid only after the last decision was completed, and while no task of the sink is running.
    """
    pattern = re.compile(task_id_pattern(sink))
    return sorted(transaction for transaction in ongoing if pattern.match(transaction))
