"""AddPartitionsToTxn (api key 24), versions 0 to 5.

Adds partitions to a transaction before records are written to them (KIP-98).  Up to version 3 the client
sends this for its own transaction; from version 4 on brokers send it for several transactions, to add
partitions or only to verify that they were added (KIP-890).  If one partition does not exist or is not
authorized, the whole transaction fails and the other partitions get OPERATION_NOT_ATTEMPTED.  Up to version 1
a fenced producer gets INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.topic_names import is_internal
from barnabas.broker.coordinators.group_requests import recover
from barnabas.broker.coordinators.transaction_errors import error_for_version
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited, each
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.coordinator.txn.transaction import EPOCH_BUMP_LEVEL
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.log.names import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 24
FIRST_VERSION_FOR_BROKERS = 4
FIRST_VERSION_WITH_FENCED = 2

Transaction = AddPartitionsToTxnRequest.Transaction
ErrorCodes = dict[TopicPartition, ErrorCode]
Names = dict[TopicPartition, None]


def handle(
    broker: Broker, request: AddPartitionsToTxnRequest, context: RequestContext
) -> Steps[AddPartitionsToTxnResponse]:
    if context.api_version >= FIRST_VERSION_FOR_BROKERS and not broker.authorizer.allows(
        context, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return (yield from _Adding(broker, request, context).steps())


def refuse(request: AddPartitionsToTxnRequest, code: ErrorCode, text: str) -> AddPartitionsToTxnResponse:
    """Up to version 3 each partition has the error; the top-level error code exists from version 4 on."""
    return AddPartitionsToTxnResponse(
        throttle_time_ms=0,
        error_code=code,
        results_by_topic_v3_and_below=_results(request.v3_and_below_topics, lambda _: code),
    )


class _Adding:
    """A request in progress."""

    def __init__(self, broker: Broker, request: AddPartitionsToTxnRequest, context: RequestContext) -> None:
        self._broker = broker
        self._context = context
        self._version = context.api_version
        self._transactions = request.transactions
        if self._version < FIRST_VERSION_FOR_BROKERS:
            self._transactions = [
                Transaction(
                    transactional_id=request.v3_and_below_transactional_id,
                    producer_id=request.v3_and_below_producer_id,
                    producer_epoch=request.v3_and_below_producer_epoch,
                    topics=request.v3_and_below_topics,
                )
            ]

    def steps(self) -> Steps[AddPartitionsToTxnResponse]:
        """All transactions are started before the first is awaited: each may wait for replicas."""
        started: list[tuple[Transaction, Promise[ErrorCodes]]] = []
        for transaction in self._transactions:
            names = yield from _names(transaction)
            refused = yield from self._refused(transaction, names)
            promise = self._add_or_verify(transaction, names) if refused is None else Promise.of(refused)
            started.append((transaction, promise))
            yield None
        results = []
        for transaction, promise in started:
            codes = yield from awaited(promise)
            results.append((yield from _result(transaction, codes)))
            yield None
        if self._version >= FIRST_VERSION_FOR_BROKERS:
            return AddPartitionsToTxnResponse(
                throttle_time_ms=0, error_code=0, results_by_transaction=results
            )
        return AddPartitionsToTxnResponse(
            throttle_time_ms=0, results_by_topic_v3_and_below=results[0].topic_results
        )

    # Checks before the coordinator is involved

    def _refused(self, transaction: Transaction, names: Names) -> Steps[ErrorCodes | None]:
        """Returns the error of each partition if one of them cannot be added to the transaction, or None."""
        authorizer, context = self._broker.authorizer, self._context
        is_client = self._version < FIRST_VERSION_FOR_BROKERS
        if is_client and not authorizer.allows(
            context, Operation.WRITE, Resource.TRANSACTIONAL_ID, transaction.transactional_id
        ):
            return dict.fromkeys(names, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        forbidden: dict[str, bool] = {}
        codes: ErrorCodes = {}
        is_refused = False
        for name in names:
            topic = name.topic
            if topic not in forbidden:
                forbidden[topic] = is_client and (
                    is_internal(topic)
                    or not authorizer.allows(context, Operation.WRITE, Resource.TOPIC, topic)
                )
            code = codes[name] = self._check(name, forbidden[topic])
            is_refused = is_refused or code is not ErrorCode.OPERATION_NOT_ATTEMPTED
            yield None
        if is_refused:
            return codes
        return None if transaction.transactional_id else dict.fromkeys(names, ErrorCode.INVALID_REQUEST)

    def _check(self, name: TopicPartition, is_forbidden: bool) -> ErrorCode:
        if is_forbidden:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        topic = self._broker.image.topic_named(name.topic)
        if topic is None or name.partition not in topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.OPERATION_NOT_ATTEMPTED

    # The coordinator

    def _add_or_verify(self, transaction: Transaction, names: Names) -> Promise[ErrorCodes]:
        producer = transaction.producer_id, transaction.producer_epoch
        coordinator = self._broker.transactions

        def refused(error: KafkaError) -> ErrorCodes:
            reported = error_for_version(self._version, FIRST_VERSION_WITH_FENCED, error)
            code = reported.code if isinstance(reported, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            return dict.fromkeys(names, code)

        if transaction.verify_only:
            return recover(
                coordinator.verify_partitions(transaction.transactional_id, producer, list(names)), refused
            )
        client_version = EPOCH_BUMP_LEVEL if self._version >= FIRST_VERSION_FOR_BROKERS else 0
        added: Promise[ErrorCodes] = Promise()
        coordinator.add_partitions(
            transaction.transactional_id, producer, frozenset(names), client_version
        ).then(lambda _: added.set({}), added.fail)
        return recover(added, refused)


def _names(transaction: Transaction) -> Steps[Names]:
    """Returns the distinct partitions in the order of the request."""
    names: Names = {}
    for topic in transaction.topics:
        for index in topic.partitions:
            names[TopicPartition(topic.name, index)] = None
            yield None
    return names


def _result(transaction: Transaction, codes: ErrorCodes) -> Steps[AddPartitionsToTxnResponse.Result]:
    """A partition that is named more than once gets a result each time, as in Apache Kafka."""
    topics = []
    for topic in transaction.topics:
        results = yield from each(topic.partitions, partial(_partition_result, topic.name, codes))
        topics.append(AddPartitionsToTxnResponse.TopicResult(name=topic.name, results_by_partition=results))
        yield None
    return AddPartitionsToTxnResponse.Result(
        transactional_id=transaction.transactional_id, topic_results=topics
    )


def _partition_result(
    topic: str, codes: ErrorCodes, index: int
) -> AddPartitionsToTxnResponse.PartitionResult:
    code = codes.get(TopicPartition(topic, index), ErrorCode.NONE)
    return AddPartitionsToTxnResponse.PartitionResult(partition_index=index, partition_error_code=code)


def _results(
    topics: Iterable[AddPartitionsToTxnRequest.Topic], code_of: Callable[[TopicPartition], ErrorCode]
) -> list[AddPartitionsToTxnResponse.TopicResult]:
    return [
        AddPartitionsToTxnResponse.TopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnResponse.PartitionResult(
                    partition_index=index,
                    partition_error_code=code_of(TopicPartition(topic.name, index)),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
