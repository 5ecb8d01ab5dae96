"""Requests between two simulated brokers: markers to partitions, verifications to a coordinator.

Contains the channel, with the faults of the wire, and the receiving side.  The sending side is the broker's
own code; the scenario belongs elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.broker.peers.peer_connection import Done, MakeRequest, PeerError
from barnabas.coordinator.decision import Marker
from barnabas.coordinator.txn.transaction import EPOCH_BUMP_LEVEL
from barnabas.protocol.apis import api
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.log.names import TopicPartition
from barnabas.testing.simulation.coordinators.shard_host import Wire

# Less than a second: a lost request must not take as long as a whole run.
REQUEST_TIMEOUT_NS = 250 * NS_PER_MS

ErrorCodes = dict[TopicPartition, ErrorCode]
_PartitionResult = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult


class Serve(Protocol):
    """The receiving broker."""

    def __call__(self, request: Message) -> Promise[Message]: ...


class SimulatedChannel:
    """`broker.peers.broker_channel.BrokerChannel` on the wire.

    `in_order`: a request that has not arrived when its sender gives up never arrives.  A marker that did
    would end the producer's next transaction, as in Apache Kafka before KIP-1228.
    """

    def __init__(self, wire: Callable[[], Wire], serve: Serve, *, in_order: bool) -> None:
        self._wire = wire
        self._serve = serve
        self._in_order = in_order
        self._is_closed = False

    def send(self, broker_id: int, key: int, make: MakeRequest, done: Done, timeout_ms: int) -> None:
        version = api(key).stable
        request = make(version)
        wire = type(request).decode(bytearray(request.encode(version)), version)

        def received(response: Message | KafkaError | None) -> None:
            if self._is_closed:
                return
            if isinstance(response, Message):
                done(response, None)
            else:
                done(None, PeerError(f"broker {broker_id} does not respond"))

        self._wire().call(lambda: self._serve(wire), received, REQUEST_TIMEOUT_NS, in_order=self._in_order)

    def disconnect_dead_brokers(self) -> None:
        """Brokers of this world do not die."""

    def close(self) -> None:
        self._is_closed = True


def serve_markers(
    request: Message, write: Callable[[TopicPartition, Marker], Promise[ErrorCode]]
) -> Promise[Message]:
    """WriteTxnMarkers; responds when all partitions have answered."""
    assert isinstance(request, WriteTxnMarkersRequest)
    response = WriteTxnMarkersResponse(markers=[])
    done: Promise[Message] = Promise()
    pending: list[tuple[_PartitionResult, Promise[ErrorCode]]] = []
    for marker in request.markers:
        sent = Marker(
            marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result
        )
        topics = []
        for topic in marker.topics:
            results = [
                _PartitionResult(partition_index=index, error_code=0) for index in topic.partition_indexes
            ]
            pending += [
                (result, write(TopicPartition(topic.name, result.partition_index), sent))
                for result in results
            ]
            topics.append(
                WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(name=topic.name, partitions=results)
            )
        response.markers.append(
            WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)
        )
    waiting = len(pending)

    def answered(result: _PartitionResult, code: ErrorCode) -> None:
        nonlocal waiting
        result.error_code = code
        waiting -= 1
        if not waiting:
            done.set(response)

    for result, written in pending:
        written.then(partial(answered, result), done.fail)
    return done


class Coordinator(Protocol):
    """The part of `broker.coordinators.transactions.Transactions` that is needed here."""

    def add_partitions(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: frozenset[TopicPartition],
        client_version: int,
    ) -> Promise[None]: ...

    def verify_partitions(
        self, transactional_id: str, producer: tuple[int, int], partitions: Sequence[TopicPartition]
    ) -> Promise[ErrorCodes]: ...


def serve_verification(request: Message, coordinator: Coordinator) -> Promise[Message]:
    """AddPartitionsToTxn; responds when the coordinator has decided about all transactions."""
    assert isinstance(request, AddPartitionsToTxnRequest)
    done: Promise[Message] = Promise()
    results: list[AddPartitionsToTxnResponse.Result] = []

    def answered(transaction: AddPartitionsToTxnRequest.Transaction, codes: ErrorCodes) -> None:
        results.append(_result(transaction, codes))
        if len(results) == len(request.transactions):
            done.set(AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_transaction=results))

    for transaction in request.transactions:
        _serve_one(transaction, coordinator, answered)
    return done


def _serve_one(
    transaction: AddPartitionsToTxnRequest.Transaction,
    coordinator: Coordinator,
    answered: Callable[[AddPartitionsToTxnRequest.Transaction, ErrorCodes], None],
) -> None:
    names = [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    producer = transaction.producer_id, transaction.producer_epoch

    def failed(error: BaseException) -> None:
        assert isinstance(error, KafkaError), error
        answered(transaction, dict.fromkeys(names, error.code))

    if transaction.verify_only:
        coordinator.verify_partitions(transaction.transactional_id, producer, names).then(
            lambda codes: answered(transaction, codes), failed
        )
    else:
        coordinator.add_partitions(
            transaction.transactional_id, producer, frozenset(names), EPOCH_BUMP_LEVEL
        ).then(lambda _: answered(transaction, dict.fromkeys(names, ErrorCode.NONE)), failed)


def _result(
    transaction: AddPartitionsToTxnRequest.Transaction, codes: ErrorCodes
) -> AddPartitionsToTxnResponse.Result:
    return AddPartitionsToTxnResponse.Result(
        transactional_id=transaction.transactional_id,
        topic_results=[
            AddPartitionsToTxnResponse.TopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnResponse.PartitionResult(
                        partition_index=index,
                        partition_error_code=codes[TopicPartition(topic.name, index)],
                    )
                    for index in topic.partitions
                ],
            )
            for topic in transaction.topics
        ],
    )
