"""EndTxn: whether the producer may end the transaction, and whether it is a retry; server-side aborts.

Up to transaction.version 1 a retry has the same epoch as the first request.  From 2 on the epoch has been
bumped by then (KIP-890), so that an old request can never end the next transaction.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.txn.transaction import (
    EPOCH_BUMP_LEVEL,
    LAST_CLIENT_EPOCH,
    NO_PRODUCER_ID,
    State,
    Transaction,
    fenced,
)


@dataclass(frozen=True, slots=True)
class EndRequest:
    """A request to commit or abort."""

    producer_id: int
    producer_epoch: int
    commit: bool
    # The transaction.version level of the client.
    client_version: int


class NeedsProducerId:
    """Returned instead of a result: retry with a new producer id."""


NEEDS_PRODUCER_ID = NeedsProducerId()


def end(
    transaction: Transaction, request: EndRequest, new_producer_id: int | None, now_ms: int
) -> Transaction | NeedsProducerId | None:
    """Returns the prepared transaction, or None for a retry that already succeeded; raises KafkaError."""
    if request.client_version < EPOCH_BUMP_LEVEL:
        return _end_without_bump(transaction, request, now_ms)
    return _end_with_bump(transaction, request, new_producer_id, now_ms)


def abort(transaction: Transaction, server_version: int, now_ms: int) -> Transaction:
    """Abort an open transaction on behalf of its producer, which is fenced by it."""
    if server_version >= EPOCH_BUMP_LEVEL:
        # Ending it bumps the epoch anyway; no client gets the new one.
        return transaction.prepare(commit=False, client_version=server_version, now_ms=now_ms)
    return transaction.fence().prepare(commit=False, client_version=0, now_ms=now_ms)


def _end_without_bump(transaction: Transaction, request: EndRequest, now_ms: int) -> Transaction | None:
    if transaction.producer_id != request.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != request.producer_epoch:
        raise fenced()
    state = transaction.state
    if state is State.ONGOING:
        return transaction.prepare(commit=request.commit, client_version=0, now_ms=now_ms)
    if state is _completed(request):
        return None
    raise _error_for(state, request)


def _end_with_bump(
    transaction: Transaction, request: EndRequest, new_producer_id: int | None, now_ms: int
) -> Transaction | NeedsProducerId | None:
    is_retry_on_overflow = (
        transaction.previous_producer_id == request.producer_id
        and request.producer_epoch == LAST_CLIENT_EPOCH
        and transaction.producer_epoch == 0
    )
    if transaction.producer_id != request.producer_id and not is_retry_on_overflow:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_retry = is_retry_on_overflow or transaction.producer_epoch == request.producer_epoch + 1
    if not _is_epoch_valid(transaction, request, is_retry_on_overflow):
        raise fenced()
    state = transaction.state
    if is_retry:
        if state is _completed(request):
            return None
        raise _error_for(state, request)
    if state is State.ONGOING or (state.is_at_rest and not request.commit):
        # An abort without a transaction is allowed: the client may not know whether one had started.
        next_producer_id = NO_PRODUCER_ID
        if transaction.is_exhausted:
            if new_producer_id is None:
                return NEEDS_PRODUCER_ID
            next_producer_id = new_producer_id
        return transaction.prepare(
            commit=request.commit,
            client_version=request.client_version,
            next_producer_id=next_producer_id,
            now_ms=now_ms,
        )
    raise _error_for(state, request)


def _is_epoch_valid(transaction: Transaction, request: EndRequest, is_retry_on_overflow: bool) -> bool:
    is_same = transaction.producer_epoch == request.producer_epoch
    is_bumped = transaction.producer_epoch == request.producer_epoch + 1
    if transaction.state.is_prepared:
        return is_bumped
    if transaction.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        return is_bumped or is_same or is_retry_on_overflow
    return is_same


def _completed(request: EndRequest) -> State:
    return State.COMPLETE_COMMIT if request.commit else State.COMPLETE_ABORT


def _error_for(state: State, request: EndRequest) -> KafkaError:
    """A pending end of the same kind must be waited for; the opposite of the decided end is an error."""
    if state is (State.PREPARE_COMMIT if request.commit else State.PREPARE_ABORT):
        return KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return KafkaError(ErrorCode.INVALID_TXN_STATE)
