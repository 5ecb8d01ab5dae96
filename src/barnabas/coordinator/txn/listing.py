"""ListTransactions and DescribeTransactions: filters and lookups.

Response formats and authorization belong in the handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.txn.transaction import STATES_BY_NAME, State, Transaction

NO_DURATION = -1


@dataclass(frozen=True, slots=True)
class Filter:
    """Filters for ListTransactions; an empty filter matches everything."""

    states: frozenset[State]
    # Whether states were given at all: if all of them are unknown, no transaction matches.
    has_states: bool
    producer_ids: frozenset[int]
    # Only transactions that have been open for longer than this; NO_DURATION matches all.
    duration_ms: int
    matches_id: Callable[[str], bool] | None

    def chosen(self, transactions: Iterable[Transaction], now_ms: int) -> Iterator[Transaction]:
        return (transaction for transaction in transactions if self._includes(transaction, now_ms))

    def _includes(self, transaction: Transaction, now_ms: int) -> bool:
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        if self.has_states and transaction.state not in self.states:
            return False
        # As in Apache Kafka, a transaction that never started counts as started long ago.
        if self.duration_ms >= 0 and now_ms - transaction.start_ms <= self.duration_ms:
            return False
        return self.matches_id is None or self.matches_id(transaction.transactional_id)


def known_states(names: Iterable[str]) -> tuple[frozenset[State], list[str]]:
    """The states with these names, and the unknown names."""
    states: set[State] = set()
    unknown: list[str] = []
    for name in dict.fromkeys(names):
        state = STATES_BY_NAME.get(name)
        if state is None:
            unknown.append(name)
        else:
            states.add(state)
    return frozenset(states), unknown


def id_pattern(pattern: str | None) -> Callable[[str], bool] | None:
    """A filter by a regular expression in RE2 syntax that must match the whole id; None matches all."""
    if not pattern:
        return None
    # Imported lazily: few requests use a pattern.
    from barnabas.coordinator.group.subscription.regexes import compiled

    try:
        # RE2, because Python's `re` could block the broker with a malicious pattern.
        compiled_pattern = compiled(pattern)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"Transaction ID `{pattern}` is not a valid regular expression: {error}.",
        ) from error
    return lambda transactional_id: compiled_pattern.fullmatch(transactional_id) is not None


def describe(transactions: dict[str, Transaction], transactional_id: str) -> Transaction:
    """Returns an existing transaction; raises the errors of DescribeTransactions."""
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    transaction = transactions.get(transactional_id)
    if transaction is None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return transaction
