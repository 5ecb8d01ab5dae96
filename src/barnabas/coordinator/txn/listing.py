"""What ListTransactions and DescribeTransactions tell about the ids of one coordinator.

What lives here: the filters.  What may not: answers' shapes and who may see what (handlers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.txn.transaction import STATES_BY_NAME, State, Transaction

NO_DURATION = -1


@dataclass(frozen=True, slots=True)
class Filter:
    """Which transactions are of interest; what is empty excludes none."""

    states: frozenset[State]
    # Whether states were named at all: if all of them are unknown, no transaction matches.
    has_states: bool
    producer_ids: frozenset[int]
    # Only those that began longer ago than this; NO_DURATION: all.
    duration_ms: int
    matches_id: Callable[[str], bool] | None

    def chosen(self, transactions: Iterable[Transaction], now_ms: int) -> Iterator[Transaction]:
        return (one for one in transactions if self._includes(one, now_ms))

    def _includes(self, one: Transaction, now_ms: int) -> bool:
        if self.producer_ids and one.producer_id not in self.producer_ids:
            return False
        if self.has_states and one.state not in self.states:
            return False
        # As in Apache Kafka, one that never began counts as begun long ago.
        if self.duration_ms >= 0 and now_ms - one.start_ms <= self.duration_ms:
            return False
        return self.matches_id is None or self.matches_id(one.transactional_id)


def known_states(names: Iterable[str]) -> tuple[frozenset[State], list[str]]:
    """The states that these names stand for, and the names that stand for none."""
    found: set[State] = set()
    unknown: list[str] = []
    for name in dict.fromkeys(names):
        state = STATES_BY_NAME.get(name)
        if state is None:
            unknown.append(name)
        else:
            found.add(state)
    return frozenset(found), unknown


def id_pattern(pattern: str | None) -> Callable[[str], bool] | None:
    """Whether a whole id matches an expression in RE2's syntax; None: all do."""
    if not pattern:
        return None
    # Few ask by a pattern: the others need not pay for all that groups know of them.
    from barnabas.coordinator.group.subscription.regexes import compiled

    try:
        # By RE2 itself: with Python's own expressions a pattern could take the broker for ever.
        matching = compiled(pattern)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"Transaction ID `{pattern}` is not a valid regular expression: {error}.",
        ) from error
    return lambda transactional_id: matching.fullmatch(transactional_id) is not None


def describe(transactions: dict[str, Transaction], transactional_id: str) -> Transaction:
    """One that exists; refused in the words of DescribeTransactions."""
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    found = transactions.get(transactional_id)
    if found is None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return found
