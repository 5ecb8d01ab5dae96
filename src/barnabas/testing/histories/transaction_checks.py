"""Anomalies of transactions: reads of aborted or open ones, and ones that are visible in part."""

from __future__ import annotations

from collections import defaultdict

from barnabas.testing.histories.anomalies import Anomaly, Report
from barnabas.testing.histories.events import FinalPosition, Isolation, Partition, partition_name
from barnabas.testing.histories.facts import NEVER, Facts, Send, Transaction

# How many values of a torn transaction are named.
MAX_NAMED = 3


def check_transactions(facts: Facts, report: Report) -> None:
    _check_polls(facts, report)
    _check_final_reads(facts, report)
    for transaction in facts.transactions.values():
        _check_torn(facts, report, transaction)
    _check_outputs(facts, report)


def _check_polls(facts: Facts, report: Report) -> None:
    reported: set[tuple[str, str]] = set()
    for index, poll in facts.polls():
        for partition, offset, value in poll.records:
            reader = f"{poll.consumer} at {partition_name(partition)} offset {offset}"
            if (poll.consumer, value) not in reported and _check_read(
                facts, report, value, poll.isolation, reader, index
            ):
                reported.add((poll.consumer, value))


def _check_final_reads(facts: Facts, report: Report) -> None:
    for (partition, isolation), read in facts.final_reads.items():
        for offset, value in read.records:
            reader = f"the final read of {partition_name(partition)} at offset {offset}"
            _check_read(facts, report, value, isolation, reader, None)


def _check_read(
    facts: Facts, report: Report, value: str, isolation: Isolation, reader: str, index: int | None
) -> bool:
    """Returns whether the read was an anomaly.  `index` is None for a final read."""
    send = facts.sends.get(value)
    if send is None:
        return False
    if send.has_failed and not send.is_acknowledged:
        report.add(Anomaly.ABORTED_READ, f"{value} was read by {reader}, though its send failed")
        return True
    transaction = facts.transaction_of(value)
    if transaction is None or isolation is Isolation.UNCOMMITTED:
        return False
    if transaction.cannot_be_committed:
        fate = "was aborted" if transaction.commit_requested_at != NEVER else "was never to be committed"
        report.add(
            Anomaly.ABORTED_READ, f"{value} was read by {reader}, though transaction {transaction.id} {fate}"
        )
        return True
    if index is not None and index < transaction.commit_requested_at:
        report.add(
            Anomaly.READ_BEFORE_COMMIT,
            f"{value} was read by {reader} before the commit of transaction {transaction.id} was requested",
        )
        return True
    return False


def _check_torn(facts: Facts, report: Report, transaction: Transaction) -> None:
    visible: list[str] = []
    missing: list[str] = []
    for value in transaction.values:
        send = facts.sends[value]
        view = facts.view(send.sent.partition, Isolation.COMMITTED)
        if value in view.values:
            visible.append(value)
        elif view.is_complete and _must_be_visible(send, view.start):
            missing.append(value)
    if visible and missing:
        report.add(
            Anomaly.TORN_TRANSACTION,
            f"of transaction {transaction.id} ({transaction.outcome}) {len(visible)} values are visible "
            f"({', '.join(visible[:MAX_NAMED])}), and {len(missing)} are not "
            f"({', '.join(missing[:MAX_NAMED])})",
        )


def _must_be_visible(send: Send, start: int) -> bool:
    """Whether it must be visible if others of its transaction are: a commit waits for all of them."""
    if send.has_failed:
        return False
    return send.offset is None or send.offset >= start


def _check_outputs(facts: Facts, report: Report) -> None:
    """Exactly once: a committed input has one committed output."""
    outputs: dict[str, list[str]] = defaultdict(list)
    for value, send in facts.sends.items():
        if send.sent.source is not None:
            view = facts.view(send.sent.partition, Isolation.COMMITTED)
            if value in view.values:
                outputs[send.sent.source].append(value)
    for source, values in outputs.items():
        if len(values) > 1:
            report.add(Anomaly.DUPLICATE, f"input {source} has the committed outputs {', '.join(values)}")
    positions: dict[Partition, FinalPosition] = {
        position.partition: position for position in facts.final_positions if position.is_transactional
    }
    for partition, position in positions.items():
        inputs = facts.view(partition, Isolation.COMMITTED).between(0, position.offset)
        for offset, value in inputs:
            if value not in outputs:
                report.add(
                    Anomaly.TORN_TRANSACTION,
                    f"group {position.group} has committed offset {position.offset} of "
                    f"{partition_name(partition)}, and input {value} at {offset} has no committed output",
                )
