"""AddPartitionsToTxn to transaction coordinators on other brokers (KIP-890).

Contains the queues of writes by broker, and requests and responses.  There is one request in flight for each
broker; writes that arrive meanwhile share the next one.  When to retry and what the producer gets belong in
broker/coordinators/transaction_verifier.py.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from barnabas.base.errors import ErrorCode
from barnabas.broker.context import BrokerContext
from barnabas.broker.coordinators.remote.broker_queues import BrokerQueues
from barnabas.broker.peers.broker_channel import BrokerChannel, known_code
from barnabas.broker.replicas.transaction_checks import PartitionErrors, TransactionalWrite
from barnabas.client.errors.cluster import UnsupportedVersionError
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.callbacks import call_each
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.storage.log.names import TopicPartition

logger = logging.getLogger(__name__)

KEY = 24
FIRST_VERSION_FOR_BROKERS = 4
# The transactions of one request.
MAX_TRANSACTIONS_PER_REQUEST = 1_000
# The writes that may wait for one coordinator's broker; beyond that producers retry.
MAX_WAITING_WRITES = 100_000


class _QueuedWrite:
    """A write that waits for its verification."""

    __slots__ = ("result", "write")

    def __init__(self, write: TransactionalWrite) -> None:
        self.write = write
        self.result: Promise[PartitionErrors] = Promise()

    def fail(self, code: ErrorCode) -> None:
        if code is ErrorCode.UNSUPPORTED_VERSION and not self.write.may_add:
            # As in Apache Kafka: a coordinator of a release that cannot verify is trusted.
            self.result.set({})
        else:
            self.result.set(dict.fromkeys(self.write.partitions, code))


class _Transaction:
    """The writes of one producer to one transaction: one entry of a request."""

    __slots__ = ("may_add", "producer", "queued")

    def __init__(self, queued: _QueuedWrite) -> None:
        write = queued.write
        self.producer = write.producer_id, write.producer_epoch
        self.may_add = write.may_add
        self.queued = [queued]

    def may_include(self, write: TransactionalWrite) -> bool:
        return self.may_add == write.may_add and self.producer == (write.producer_id, write.producer_epoch)

    def is_fenced_by(self, write: TransactionalWrite) -> bool:
        return self.producer[0] == write.producer_id and self.producer[1] < write.producer_epoch

    def fences(self, write: TransactionalWrite) -> bool:
        return self.producer[0] == write.producer_id and write.producer_epoch < self.producer[1]


class VerificationRequests:
    """Verifies writes with, or adds them to, transactions of other brokers.  Runs on the loop's thread."""

    def __init__(self, broker: BrokerContext, channel: BrokerChannel, timers: TimerService) -> None:
        self._broker = broker
        self._channel = channel
        self._queues = BrokerQueues(broker.clock, timers, self._send, MAX_WAITING_WRITES)

    def verify(self, broker_id: int, write: TransactionalWrite) -> Promise[PartitionErrors]:
        """Returns the coordinator's result for each partition; NETWORK_EXCEPTION if it did not respond."""
        queued = _QueuedWrite(write)
        if not self._queues.add(broker_id, queued):
            queued.fail(ErrorCode.NETWORK_EXCEPTION)
        return queued.result

    def _send(self, broker_id: int, waiting: deque[_QueuedWrite], received: Callable[[], None]) -> bool:
        transactions, fenced = _next_batch(waiting)
        if transactions:
            timeout_ms: int = self._broker.settings["request.timeout.ms"]
            done = partial(self._received, broker_id, transactions, received)
            self._channel.send(broker_id, KEY, partial(_request, transactions), done, timeout_ms)
        call_each(partial(queued.fail, ErrorCode.INVALID_PRODUCER_EPOCH) for queued in fenced)
        return bool(transactions)

    def _received(
        self,
        broker_id: int,
        transactions: dict[str, _Transaction],
        received: Callable[[], None],
        response: Message | None,
        error: Exception | None,
    ) -> None:
        received()
        if isinstance(response, AddPartitionsToTxnResponse) and not response.error_code:
            results = {result.transactional_id: result for result in response.results_by_transaction}
            call_each(
                partial(queued.result.set, _errors(results.get(transactional_id), queued.write))
                for transactional_id, queued in _all(transactions)
            )
            return
        code = _failure(response, error, broker_id)
        call_each(partial(queued.fail, code) for _, queued in _all(transactions))

    def disconnect_dead_brokers(self) -> None:
        """A broker that was fenced may be paused or cut off: its requests fail now, not at their deadline."""
        self._channel.disconnect_dead_brokers()

    def stop(self) -> None:
        """Drops what waits, without results."""
        self._queues.stop()
        self._channel.close()


def _all(transactions: dict[str, _Transaction]) -> Iterator[tuple[str, _QueuedWrite]]:
    for transactional_id, transaction in transactions.items():
        for queued in transaction.queued:
            yield transactional_id, queued


def _next_batch(waiting: deque[_QueuedWrite]) -> tuple[dict[str, _Transaction], list[_QueuedWrite]]:
    """Removes the writes of the next request, by transactional id; and those of fenced producers.

    Writes of one transaction share its entry; Apache Kafka would send all but the last away.
    """
    transactions: dict[str, _Transaction] = {}
    fenced: list[_QueuedWrite] = []
    while waiting:
        queued = waiting[0]
        write = queued.write
        transaction = transactions.get(write.transactional_id)
        if transaction is None:
            if len(transactions) == MAX_TRANSACTIONS_PER_REQUEST:
                break
            transactions[write.transactional_id] = _Transaction(queued)
        elif transaction.may_include(write):
            transaction.queued.append(queued)
        elif transaction.fences(write):
            fenced.append(queued)
        elif transaction.is_fenced_by(write):
            fenced += transaction.queued
            transactions[write.transactional_id] = _Transaction(queued)
        else:
            break  # the same id in another way: in the next request
        waiting.popleft()
    return transactions, fenced


def _request(transactions: dict[str, _Transaction], version: int) -> AddPartitionsToTxnRequest:
    if version < FIRST_VERSION_FOR_BROKERS:
        raise UnsupportedVersionError(f"AddPartitionsToTxn of version {version} is not for brokers")
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnRequest.Transaction(
                transactional_id=transactional_id,
                producer_id=transaction.producer[0],
                producer_epoch=transaction.producer[1],
                verify_only=not transaction.may_add,
                topics=_topics([name for queued in transaction.queued for name in queued.write.partitions]),
            )
            for transactional_id, transaction in transactions.items()
        ]
    )


def _topics(names: Sequence[TopicPartition]) -> list[AddPartitionsToTxnRequest.Topic]:
    topics: dict[str, list[int]] = {}
    for name in dict.fromkeys(names):
        topics.setdefault(name.topic, []).append(name.partition)
    return [
        AddPartitionsToTxnRequest.Topic(name=topic, partitions=indexes) for topic, indexes in topics.items()
    ]


def _errors(result: AddPartitionsToTxnResponse.Result | None, write: TransactionalWrite) -> PartitionErrors:
    codes = {
        TopicPartition(topic.name, partition.partition_index): known_code(partition.partition_error_code)
        for topic in (() if result is None else result.topic_results)
        for partition in topic.results_by_partition
    }
    # Without a result the write is not verified.
    return {name: codes.get(name, ErrorCode.UNKNOWN_SERVER_ERROR) for name in write.partitions}


def _failure(response: Message | None, error: Exception | None, broker_id: int) -> ErrorCode:
    """Returns the code of all writes of a request that was not carried out."""
    if isinstance(response, AddPartitionsToTxnResponse):
        code = known_code(response.error_code)
        logger.error("broker %d refuses to verify transactions: %s", broker_id, code.name)
        # Producers do not expect an error of the brokers' own authorization.
        return ErrorCode.INVALID_TXN_STATE if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else code
    logger.warning("broker %d did not verify transactions: %s", broker_id, error)
    if isinstance(error, UnsupportedVersionError):
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NETWORK_EXCEPTION
