"""The checker: a history in, a report out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from barnabas.testing.histories.anomalies import ALLOWED, Anomaly, Report
from barnabas.testing.histories.cycles import check_cycles
from barnabas.testing.histories.events import Event, TransactionOutcome
from barnabas.testing.histories.facts import Facts
from barnabas.testing.histories.log_checks import check_log
from barnabas.testing.histories.poll_checks import check_polls
from barnabas.testing.histories.transaction_checks import check_transactions


def check(events: Iterable[Event], *, allowed: frozenset[Anomaly] = ALLOWED) -> Report:
    """Judge a history.  Raises HistoryError if it was recorded wrongly."""
    facts = Facts(events)
    report = Report(allowed=allowed, totals=_totals(facts))
    check_log(facts, report)
    check_polls(facts, report)
    check_transactions(facts, report)
    check_cycles(facts, report)
    return report


def _totals(facts: Facts) -> Counter[str]:
    outcomes = Counter(transaction.outcome for transaction in facts.transactions.values())
    return Counter(
        {
            "sent": len(facts.sends),
            "acknowledged": sum(send.is_acknowledged for send in facts.sends.values()),
            "failed": sum(send.has_failed for send in facts.sends.values()),
            "polled": sum(len(poll.records) for _, poll in facts.polls()),
            "transactions committed": outcomes[TransactionOutcome.COMMITTED],
            "aborted": outcomes[TransactionOutcome.ABORTED],
            "unknown": outcomes[TransactionOutcome.UNKNOWN],
        }
    )
