"""Verifies transactional writes with the transaction's coordinator before they are appended (KIP-890).

The coordinator is on this broker or on another one: the leader of the id's partition of the transaction log.

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
from barnabas.broker.coordinators.remote.verification_requests import VerificationRequests
from barnabas.broker.replicas.transaction_checks import PartitionErrors, TransactionalWrite
from barnabas.coordinator.txn.transaction import EPOCH_BUMP_LEVEL
from barnabas.metadata.topics import NO_LEADER
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService

if TYPE_CHECKING:
    from barnabas.broker.coordinators.transactions import Transactions

# Options of Apache Kafka 4.0, which a broker of ZooKeeper mode does not have.
RETRY_BACKOFF_MS, RETRY_BACKOFF_MAX_MS = 20, 100


class TransactionVerifier:
    """Sends verifications to the coordinators."""

    def __init__(
        self,
        broker: BrokerContext,
        broker_id: int,
        transactions: Transactions,
        requests: VerificationRequests,
        timers: TimerService,
    ) -> None:
        self._broker = broker
        self._broker_id = broker_id
        self._transactions = transactions
        self._requests = requests
        self._timers = timers

    def verify(self, write: TransactionalWrite) -> Promise[PartitionErrors]:
        result: Promise[PartitionErrors] = Promise()
        settings = self._broker.settings
        backoff_max_ms = settings.get("add.partitions.to.txn.retry.backoff.max.ms", RETRY_BACKOFF_MAX_MS)
        timeout_ms: int = min(backoff_max_ms, settings["request.timeout.ms"])
        self._attempt(result, write, self._broker.clock.monotonic_ns() + timeout_ms * NS_PER_MS)
        return result

    def _attempt(self, result: Promise[PartitionErrors], write: TransactionalWrite, until_ns: int) -> None:
        self._send(write).then(partial(self._verified, result, write, until_ns), result.fail)

    def _send(self, write: TransactionalWrite) -> Promise[PartitionErrors]:
        coordinator = self._coordinator_of(write.transactional_id)
        if coordinator == NO_LEADER:
            return Promise.of(_all(write, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        if coordinator != self._broker_id:
            return self._requests.verify(coordinator, write)
        result: Promise[PartitionErrors] = Promise()
        producer = write.producer_id, write.producer_epoch

        def failed(error: BaseException) -> None:
            result.set(_all(write, _code(error)))

        if write.may_add:
            self._transactions.add_partitions(
                write.transactional_id, producer, frozenset(write.partitions), EPOCH_BUMP_LEVEL
            ).then(lambda _: result.set({}), failed)
        else:
            self._transactions.verify_partitions(write.transactional_id, producer, write.partitions).then(
                result.set, failed
            )
        return result

    def _coordinator_of(self, transactional_id: str) -> int:
        """Returns the leader of the id's partition; NO_LEADER if there is none or it is not alive."""
        image = self._broker.image
        topic = image.topic_named(TRANSACTION_STATE)
        if topic is None:
            return NO_LEADER
        partition = topic.partitions.get(self._transactions.shards.partition_for(transactional_id))
        leader = NO_LEADER if partition is None else partition.leader
        broker = image.brokers.get(leader)
        is_alive = leader == self._broker_id or (broker is not None and not broker.fenced)
        return leader if is_alive else NO_LEADER

    def _verified(
        self,
        result: Promise[PartitionErrors],
        write: TransactionalWrite,
        until_ns: int,
        errors: PartitionErrors,
    ) -> None:
        now_ns = self._broker.clock.monotonic_ns()
        is_too_early = ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
        if write.may_add and is_too_early and now_ns < until_ns:
            settings = self._broker.settings
            backoff_ms: int = settings.get("add.partitions.to.txn.retry.backoff.ms", RETRY_BACKOFF_MS)
            retry = partial(self._attempt, result, write, until_ns)
            self._timers.set(result, now_ns + backoff_ms * NS_PER_MS, retry)
        else:
            result.set({name: _producer_error(code, write) for name, code in errors.items()})


def _all(write: TransactionalWrite, code: ErrorCode) -> PartitionErrors:
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
