"""Exactly-once, without IO: what a driver does, given what is decided, what is open and what tasks report.

What lives here: the data of the protocol and every choice it makes.  What may not: requests (calls), and the
order in which they are made (driver).

Every task writes into a transaction of its own and leaves it open.  The driver writes one record with the
list of them, the decision, in a transaction of its own; from then on they are to be committed, whoever has
to do it.  Before each batch the driver's transactional id is taken over, which fences older drivers, and what
the last decision says is brought to its end.  docs/explanation/exactly-once-sink.md tells why this holds.
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
# A task that finds its transactional id in use tries so many others.
MAX_SPARE_IDS = 8


class BrokenPromiseError(Exception):
    """Exactly-once cannot be kept, or only by trying the batch again; the text says which."""


@dataclass(frozen=True, slots=True)
class Written:
    """Where rows of one producer lie in a partition; rows of others may lie between them."""

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
    """These transactions make up this batch of this query: they are to be committed."""

    query: str
    batch: int
    # Whether epochs grow with every transaction (KIP-890): ending one again must be asked in the same way.
    implicit: bool
    transactions: tuple[OpenTransaction, ...]
    # For batch writes with a number: where to, and in which run of the query.  Spark runs no batch twice in
    # one run, so what comes with the same number then is another write, not the same one again.
    topic: str = ""
    run: str = ""

    def covers(self, query: str, batch: int) -> bool:
        """Whether a batch is in the output already; batches of one query are decided in order."""
        return self.query == query and batch <= self.batch

    def check_repeat(self, sink: str, topic: str, run: str) -> None:
        """BrokenPromiseError if a write of a batch that is decided cannot be the same one again."""
        is_elsewhere = topic and self.topic and topic != self.topic
        if is_elsewhere or (run and run == self.run):
            partition = f"to {topic}, after that to {self.topic}," if is_elsewhere else "of the same batch"
            raise BrokenPromiseError(
                f"batch {self.batch} of the sink {sink} is written already, and a second write {partition} would "
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
    """What a driver knows at the start of a batch; tasks carry it, and bring it to the one who commits."""

    sink: str
    producer_id: int
    producer_epoch: int
    implicit: bool
    # The last decision, without its list.
    decided: Decision | None

    def covers(self, query: str, batch: int) -> bool:
        return self.decided is not None and self.decided.covers(query, batch)


@dataclass(frozen=True, slots=True)
class Report:
    """What a task tells the driver.  Without transaction it had no rows, or the batch was done before."""

    plan: Plan
    query: str
    batch: int
    transaction: OpenTransaction | None
    topic: str = ""
    run: str = ""


# ------------------------------------------------------------------------------------------------ the names


def driver_id(sink: str) -> str:
    return f"{ID_PREFIX}{sink}-driver"


def task_id(sink: str, partition: int, attempt: int, spare: int = 0) -> str:
    """With the attempt's number, so that a speculative copy does not abort the one that has won."""
    name = f"{ID_PREFIX}{sink}-t{partition}-a{attempt}"
    return name if spare == 0 else f"{name}-x{spare}"


def task_id_pattern(sink: str) -> str:
    """What all transactional ids of a sink's tasks match, and those of no other sink."""
    return f"^{re.escape(ID_PREFIX + sink)}-t[0-9]+-a[0-9]+(-x[0-9]+)?$"


# --------------------------------------------------------------------------------------- the control record


def encode(decision: Decision) -> bytes:
    """The value of a control record."""
    told = {
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
    return json.dumps(told, separators=(",", ":")).encode()


def decode(value: bytes, sink: str) -> Decision:
    """The decision that a control record holds."""
    try:
        told: Any = json.loads(value)
        if told["format"] != FORMAT:
            raise ValueError(f"format {told['format']}")
        return Decision(
            str(told["query"]),
            int(told["batch"]),
            bool(told["implicit"]),
            tuple(
                OpenTransaction(name, producer_id, epoch, tuple(Written(*each) for each in written))
                for name, producer_id, epoch, written in told["transactions"]
            ),
            str(told.get("topic", "")),
            str(told.get("run", "")),
        )
    except (ValueError, LookupError, TypeError) as error:
        raise BrokenPromiseError(
            f"the control record of the sink {sink} cannot be read ({error}): it was written by a newer "
            "barnabas, or by somebody else; use another sinkId or controlTopic"
        ) from error


# ------------------------------------------------------------------------------- from reports to a decision


def decide(reports: Sequence[Report | None]) -> tuple[Plan, Decision] | None:
    """What is to be decided; None if no rows were written, or the batch was done before."""
    known = [report for report in reports if report is not None]
    if len(known) < len(reports):
        raise BrokenPromiseError("a task has not reported: the batch cannot be committed")
    transactions = tuple(report.transaction for report in known if report.transaction is not None)
    if not transactions:
        return None
    first = known[0]
    if any((one.plan, one.query, one.batch) != (first.plan, first.query, first.batch) for one in known):
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
    """What may be aborted when Spark gives a batch up.

    It also does so when commit() has raised, perhaps after the decision; all tasks have reported then, and
    only the next plan can tell.  If one has not, commit() was never called.
    """
    if None not in reports:
        return ()
    return tuple(
        report.transaction for report in reports if report is not None and report.transaction is not None
    )


# ----------------------------------------------------------------------------------- states of transactions


@dataclass(frozen=True, slots=True)
class Seen:
    """A transactional id as its coordinator describes it."""

    state: str
    producer_id: int
    producer_epoch: int


class Ending(Enum):
    """What is left to do for a decided transaction."""

    COMMIT = "commit it"
    DONE = "it is committed"
    LOOK = "its coordinator knows no more of it: the log tells what became of it"


def unfit(decision: Decision, seen: Mapping[str, Seen]) -> list[str]:
    """Transactions that are not open any more as the tasks left them: these cannot be decided upon."""
    return [
        transaction.transactional_id
        for transaction in decision.transactions
        if seen.get(transaction.transactional_id)
        != Seen("Ongoing", transaction.producer_id, transaction.producer_epoch)
    ]


def ending(open_transaction: OpenTransaction, seen: Seen | None, *, implicit: bool) -> Ending:
    """What is left to do, as far as the coordinator's word is beyond doubt."""
    if seen == Seen("Ongoing", open_transaction.producer_id, open_transaction.producer_epoch):
        return Ending.COMMIT
    if seen is not None and seen.state in ("PrepareCommit", "CompleteCommit"):
        # With KIP-890 the epoch has grown with the commit; anything else may be a later transaction.
        ended_epoch = open_transaction.producer_epoch + 1 if implicit else open_transaction.producer_epoch
        if (seen.producer_id, seen.producer_epoch) == (open_transaction.producer_id, ended_epoch):
            return Ending.DONE
    return Ending.LOOK


def to_sweep(sink: str, ongoing: Iterable[str]) -> list[str]:
    """Open transactions of the sink that nobody will end: of dead drivers, lost tasks, losing copies.

    Only for who has brought the last decision to its end, when no task of the sink has work to do.
    """
    pattern = re.compile(task_id_pattern(sink))
    return sorted(transaction for transaction in ongoing if pattern.match(transaction))
