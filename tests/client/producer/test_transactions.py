"""Transactions with a scripted coordinator, as brokers before KIP-890 and after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.client import ConsumerGroupMetadata, OffsetAndMetadata, Producer, TopicPartition
from barnabas.client import errors as client_errors
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from tests.client.scripted import PRODUCER_ID, TOPIC, ScriptedBroker, scripted

Run = Callable[[Any], Any]
WHERE = TopicPartition(TOPIC, 0)
QUICK: dict[str, Any] = {
    "transactional_id": "t",
    "linger_ms": 0,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 20,
    "reconnect_backoff_ms": 5,
}


def added(code: int) -> AddPartitionsToTxnResponse:
    part = AddPartitionsToTxnResponse.PartitionResult(partition_index=0, partition_error_code=code)
    topic = AddPartitionsToTxnResponse.TopicResult(name=TOPIC, results_by_partition=[part])
    return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=[topic])


def ended(code: int = 0, epoch: int = -1) -> EndTxnResponse:
    producer_id = PRODUCER_ID if epoch >= 0 else -1
    return EndTxnResponse(throttle_time_ms=0, error_code=code, producer_id=producer_id, producer_epoch=epoch)


def offsets_committed(code: int) -> TxnOffsetCommitResponse:
    part = TxnOffsetCommitResponse.Partition(partition_index=0, error_code=code)
    topic = TxnOffsetCommitResponse.Topic(name=TOPIC, partitions=[part])
    return TxnOffsetCommitResponse(throttle_time_ms=0, topics=[topic])


def coordinate(broker: ScriptedBroker) -> None:
    """As an old coordinator whom nothing troubles."""
    broker.handlers[AddPartitionsToTxnRequest] = lambda *_: added(0)
    broker.handlers[EndTxnRequest] = lambda *_: ended()
    broker.handlers[AddOffsetsToTxnRequest] = lambda *_: AddOffsetsToTxnResponse(
        throttle_time_ms=0, error_code=0
    )
    broker.handlers[TxnOffsetCommitRequest] = lambda *_: offsets_committed(0)


def modern(broker: ScriptedBroker) -> None:
    """With transaction.version 2: partitions are added by the brokers, every transaction has its epoch."""
    usual = broker.handlers[ApiVersionsRequest]

    def versions(request: Any, version: int) -> Any:
        response = usual(request, version)
        assert isinstance(response, ApiVersionsResponse)
        response.finalized_features = [
            ApiVersionsResponse.FinalizedFeatureKey(
                name="transaction.version", max_version_level=2, min_version_level=2
            )
        ]
        response.finalized_features_epoch = 1
        return response

    broker.handlers[ApiVersionsRequest] = versions
    epochs = iter(range(1, 100))
    broker.handlers[EndTxnRequest] = lambda *_: ended(epoch=next(epochs))


def test_every_transaction_adds_its_partitions(run: Run) -> None:
    """What the last one has added, the coordinator has forgotten with it."""

    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **QUICK) as producer:
            coordinate(broker)
            await producer.init_transactions()
            for number in range(3):
                producer.begin_transaction()
                await producer.send(TOPIC, b"x", partition=0)
                await producer.send(TOPIC, b"y", partition=0)
                await producer.commit_transaction()
                assert broker.count(AddPartitionsToTxnRequest) == number + 1
            kinds = [type(request) for request, _ in broker.requests]
            assert kinds.index(AddPartitionsToTxnRequest) < kinds.index(ProduceRequest)

    run(work())


def test_an_empty_transaction_sends_no_request(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **QUICK) as producer:
            coordinate(broker)
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send(TOPIC, b"x", partition=0)
            await producer.commit_transaction()
            for end in (producer.commit_transaction, producer.abort_transaction):
                producer.begin_transaction()
                await end()
            assert broker.count(EndTxnRequest) == 1

    run(work())


def test_with_transaction_version_2_nothing_is_announced_and_epochs_move_on(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker:
            coordinate(broker)
            modern(broker)
            async with Producer(bootstrap_servers=broker.bootstrap, **QUICK) as producer:
                await producer.init_transactions()
                for _ in range(3):
                    producer.begin_transaction()
                    await producer.send(TOPIC, b"x", partition=0)
                    await producer.commit_transaction()
            assert broker.count(AddPartitionsToTxnRequest) == 0
            assert [(one.producer_epoch, one.base_sequence) for one in broker.log] == [(0, 0), (1, 0), (2, 0)]

    run(work())


@pytest.mark.parametrize("kind", [InitProducerIdRequest, AddPartitionsToTxnRequest, EndTxnRequest])
def test_a_coordinator_that_has_moved_is_looked_up_again(run: Run, kind: Any) -> None:
    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **QUICK) as producer:
            coordinate(broker)
            refusals = {
                InitProducerIdRequest: InitProducerIdResponse(
                    throttle_time_ms=0,
                    error_code=ErrorCode.NOT_COORDINATOR,
                    producer_id=-1,
                    producer_epoch=-1,
                ),
                AddPartitionsToTxnRequest: added(ErrorCode.NOT_COORDINATOR),
                EndTxnRequest: ended(ErrorCode.NOT_COORDINATOR),
            }
            broker.once(kind, lambda *_: refusals[kind])
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send(TOPIC, b"x", partition=0)
            await producer.commit_transaction()
            assert broker.count(FindCoordinatorRequest) == 2
            assert broker.count(kind) == 2

    run(work())


def test_the_coordinator_of_a_group_that_has_moved_is_looked_up_again(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **QUICK) as producer:
            coordinate(broker)
            broker.once(TxnOffsetCommitRequest, lambda *_: offsets_committed(ErrorCode.NOT_COORDINATOR))
            await producer.init_transactions()
            producer.begin_transaction()
            offsets = {WHERE: OffsetAndMetadata(7)}
            await producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata("g"))
            await producer.commit_transaction()
            asked = [one for one, _ in broker.requests if isinstance(one, FindCoordinatorRequest)]
            assert [one.coordinator_keys for one in asked].count(["g"]) == 2
            assert broker.count(EndTxnRequest) == 1, "offsets alone are work, too"

    run(work())


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.INVALID_RECORD, client_errors.InvalidRecordError),
        # Of EndTxn it would be the end of the producer.
        (ErrorCode.INVALID_TXN_STATE, client_errors.InvalidTxnStateError),
    ],
)
def test_a_transaction_error_is_raised_until_it_is_aborted(
    run: Run, code: ErrorCode, error: type[Exception]
) -> None:
    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **QUICK) as producer:
            coordinate(broker)
            await producer.init_transactions()
            producer.begin_transaction()
            broker.once(ProduceRequest, lambda *_: broker.produced(code))
            with pytest.raises(error):
                await producer.send_and_wait(TOPIC, b"x", partition=0)
            for attempt in (producer.send(TOPIC, b"y"), producer.commit_transaction()):
                with pytest.raises(client_errors.TransactionAbortableError, match="has failed"):
                    await attempt
            await producer.abort_transaction()
            # A sequence number was assigned and never written: the next epoch restarts them (KIP-360).
            asked = [one for one, _ in broker.requests if isinstance(one, InitProducerIdRequest)]
            assert [(one.producer_id, one.producer_epoch) for one in asked] == [(-1, -1), (PRODUCER_ID, 0)]
            producer.begin_transaction()
            await producer.send_and_wait(TOPIC, b"z", partition=0)
            await producer.commit_transaction()
            ends = [one.committed for one, _ in broker.requests if isinstance(one, EndTxnRequest)]
            assert ends == [False, True]

    run(work())


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_fenced_producer_is_done_for_good(run: Run, code: ErrorCode) -> None:
    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **QUICK) as producer:
            coordinate(broker)
            await producer.init_transactions()
            producer.begin_transaction()
            broker.once(EndTxnRequest, lambda *_: ended(code))
            await producer.send(TOPIC, b"x", partition=0)
            with pytest.raises(client_errors.ProducerFencedError):
                await producer.commit_transaction()
            for attempt in (producer.abort_transaction(), producer.init_transactions()):
                with pytest.raises(client_errors.ProducerFencedError):
                    await attempt
            with pytest.raises(client_errors.ProducerFencedError):
                producer.begin_transaction()

    run(work())


def test_what_is_not_sent_yet_an_abort_drops(run: Run) -> None:
    async def work() -> None:
        options = {**QUICK, "linger_ms": 30_000}
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
            coordinate(broker)
            await producer.init_transactions()
            producer.begin_transaction()
            delivery = await producer.send(TOPIC, b"x", partition=0)
            await producer.abort_transaction()
            with pytest.raises(client_errors.TransactionAbortableError, match="aborted before"):
                await delivery
            assert broker.log == []

    run(work())
