"""The end of a transaction: whether this producer may end it, and what a request that is sent again is told.

What lives here: the rules of EndTxn, and of aborting on the producer's behalf.  What may not: records,
markers and answers.

Up to transaction.version 1 a request that is sent again comes with the same epoch as the first.  From 2 on
the epoch has grown by then (KIP-890), so that an old request can never end the next transaction.
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
    """A producer wants to commit or abort."""

    producer_id: int
    producer_epoch: int
    commit: bool
    # The level of transaction.version that its client speaks.
    client_version: int


class NeedsProducerId:
    """Instead of an answer: ask again with a producer id that nobody has."""


NEEDS_PRODUCER_ID = NeedsProducerId()


def end(
    transaction: Transaction, request: EndRequest, new_producer_id: int | None, now_ms: int
) -> Transaction | NeedsProducerId | None:
    """The prepared transaction; None if this request has already done its work.  Else it is refused."""
    if request.client_version < EPOCH_BUMP_LEVEL:
        return _end_without_bump(transaction, request, now_ms)
    return _end_with_bump(transaction, request, new_producer_id, now_ms)


def abort(transaction: Transaction, server_version: int, now_ms: int) -> Transaction:
    """Abort an open transaction that its producer has given up; the producer is fenced by it."""
    if server_version >= EPOCH_BUMP_LEVEL:
        # Its end bumps the epoch anyway; the new one is told to nobody.
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
    raise _refusal(state, request)


def _end_with_bump(
    transaction: Transaction, request: EndRequest, new_producer_id: int | None, now_ms: int
) -> Transaction | NeedsProducerId | None:
    follows_overflow = (
        transaction.previous_producer_id == request.producer_id
        and request.producer_epoch == LAST_CLIENT_EPOCH
        and transaction.producer_epoch == 0
    )
    if transaction.producer_id != request.producer_id and not follows_overflow:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_sent_again = follows_overflow or transaction.producer_epoch == request.producer_epoch + 1
    if not _is_epoch_valid(transaction, request, follows_overflow):
        raise fenced()
    state = transaction.state
    if is_sent_again:
        if state is _completed(request):
            return None
        raise _refusal(state, request)
    if state is State.ONGOING or (state.is_at_rest and not request.commit):
        # An abort without a transaction is allowed: the client may not know whether one had begun.
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
    raise _refusal(state, request)


def _is_epoch_valid(transaction: Transaction, request: EndRequest, follows_overflow: bool) -> bool:
    is_same = transaction.producer_epoch == request.producer_epoch
    is_bumped = transaction.producer_epoch == request.producer_epoch + 1
    if transaction.state.is_prepared:
        return is_bumped
    if transaction.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        return is_bumped or is_same or follows_overflow
    return is_same


def _completed(request: EndRequest) -> State:
    return State.COMPLETE_COMMIT if request.commit else State.COMPLETE_ABORT


def _refusal(state: State, request: EndRequest) -> KafkaError:
    """What is under way is waited for; the opposite of what was decided is refused."""
    if state is (State.PREPARE_COMMIT if request.commit else State.PREPARE_ABORT):
        return KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return KafkaError(ErrorCode.INVALID_TXN_STATE)
