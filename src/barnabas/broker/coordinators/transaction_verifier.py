"""Verifies transactional writes with the transaction's coordinator before they are appended (KIP-890).

A producer of transaction.version 2 does not add partitions itself: the verification adds them.  Its next
transaction may start while the markers of the previous one are still being written; then the verification is
retried for a short time, rather than failing the client.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.topic_names import TRANSACTION_STATE
from barnabas.base.units import NS_PER_MS
from barnabas.broker.context import BrokerContext
from barnabas.broker.replicas.transaction_checks import TransactionalWrite, Verdicts
from barnabas.coordinator.txn.transaction import EPOCH_BUMP_LEVEL
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService

if TYPE_CHECKING:
    from barnabas.broker.coordinators.transactions import Transactions


class TransactionVerifier:
    """Sends verifications to the coordinators of this broker."""

    def __init__(self, broker: BrokerContext, transactions: Transactions, timers: TimerService) -> None:
        self._broker = broker
        self._transactions = transactions
        self._timers = timers

    def verify(self, write: TransactionalWrite) -> Promise[Verdicts]:
        result: Promise[Verdicts] = Promise()
        if self._broker.image.topic_named(TRANSACTION_STATE) is None:
            result.set(_all(write, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        elif write.may_add:
            settings = self._broker.settings
            timeout_ms: int = min(
                settings["add.partitions.to.txn.retry.backoff.max.ms"], settings["request.timeout.ms"]
            )
            self._add(result, write, self._broker.clock.monotonic_ns() + timeout_ms * NS_PER_MS)
        else:
            self._transactions.verify_partitions(
                write.transactional_id, (write.producer_id, write.producer_epoch), write.partitions
            ).then(
                lambda verdicts: result.set(
                    {name: _producer_error(code, write) for name, code in verdicts.items()}
                ),
                lambda error: result.set(_all(write, _producer_error(_code(error), write))),
            )
        return result

    def _add(self, result: Promise[Verdicts], write: TransactionalWrite, until_ns: int) -> None:
        def failed(error: BaseException) -> None:
            code = _code(error)
            now_ns = self._broker.clock.monotonic_ns()
            if code is ErrorCode.CONCURRENT_TRANSACTIONS and now_ns < until_ns:
                backoff_ms: int = self._broker.settings["add.partitions.to.txn.retry.backoff.ms"]
                self._timers.set(
                    result, now_ns + backoff_ms * NS_PER_MS, partial(self._add, result, write, until_ns)
                )
            else:
                result.set(_all(write, _producer_error(code, write)))

        self._transactions.add_partitions(
            write.transactional_id,
            (write.producer_id, write.producer_epoch),
            frozenset(write.partitions),
            EPOCH_BUMP_LEVEL,
        ).then(lambda _: result.set({}), failed)


def _all(write: TransactionalWrite, code: ErrorCode) -> Verdicts:
    return dict.fromkeys(write.partitions, code)


def _code(error: BaseException) -> ErrorCode:
    return error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR


def _producer_error(code: ErrorCode, write: TransactionalWrite) -> ErrorCode:
    """Returns the code for the producer: older clients get INVALID_TXN_STATE for TRANSACTION_ABORTABLE."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not write.knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
