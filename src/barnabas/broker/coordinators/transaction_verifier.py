"""Asking a transaction's coordinator about a write, before it is made (KIP-890).

What lives here: the question's way to the coordinator, and the words in which its refusals are told to those
who write.  What may not: the answer (coordinator/txn).

A producer of transaction.version 2 does not add partitions itself: the question adds them.  Its next
transaction may come so fast that the one before is still being told to its partitions; then the question is
asked again for a little while, rather than sending the client away.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.topic_names import TRANSACTION_STATE
from barnabas.broker.context import BrokerContext
from barnabas.broker.replicas.transaction_checks import TransactionalWrite, Verdicts
from barnabas.coordinator.txn.transaction import EPOCH_BUMP_LEVEL
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService

if TYPE_CHECKING:
    from barnabas.broker.coordinators.transactions import Transactions

_MS = 1_000_000


class TransactionVerifier:
    """Who knows the coordinators."""

    def __init__(self, broker: BrokerContext, transactions: Transactions, timers: TimerService) -> None:
        self._broker = broker
        self._transactions = transactions
        self._timers = timers

    def verify(self, write: TransactionalWrite) -> Promise[Verdicts]:
        answer: Promise[Verdicts] = Promise()
        if self._broker.image.topic_named(TRANSACTION_STATE) is None:
            answer.set(_all(write, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        elif write.may_add:
            settings = self._broker.settings
            patience_ms: int = min(
                settings["add.partitions.to.txn.retry.backoff.max.ms"], settings["request.timeout.ms"]
            )
            self._add(answer, write, self._broker.clock.monotonic_ns() + patience_ms * _MS)
        else:
            self._transactions.verify_partitions(
                write.transactional_id, (write.producer_id, write.producer_epoch), write.partitions
            ).then(
                lambda verdicts: answer.set({one: _told(code, write) for one, code in verdicts.items()}),
                lambda error: answer.set(_all(write, _told(_code(error), write))),
            )
        return answer

    def _add(self, answer: Promise[Verdicts], write: TransactionalWrite, until_ns: int) -> None:
        def failed(error: BaseException) -> None:
            code = _code(error)
            now_ns = self._broker.clock.monotonic_ns()
            if code is ErrorCode.CONCURRENT_TRANSACTIONS and now_ns < until_ns:
                backoff_ms: int = self._broker.settings["add.partitions.to.txn.retry.backoff.ms"]
                self._timers.set(
                    answer, now_ns + backoff_ms * _MS, partial(self._add, answer, write, until_ns)
                )
            else:
                answer.set(_all(write, _told(code, write)))

        self._transactions.add_partitions(
            write.transactional_id,
            (write.producer_id, write.producer_epoch),
            frozenset(write.partitions),
            EPOCH_BUMP_LEVEL,
        ).then(lambda _: answer.set({}), failed)


def _all(write: TransactionalWrite, code: ErrorCode) -> Verdicts:
    return dict.fromkeys(write.partitions, code)


def _code(error: BaseException) -> ErrorCode:
    return error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR


def _told(code: ErrorCode, write: TransactionalWrite) -> ErrorCode:
    """In words that whoever writes knows: an older client learns that its transaction is not valid."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not write.knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
