"""Writes are verified with transaction coordinators on other brokers (M-F3, KIP-890)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.topic_names import TRANSACTION_STATE
from barnabas.broker.coordinators.marker_sender import MAX_RETRY_MS
from barnabas.client.errors.cluster import UnsupportedVersionError
from barnabas.metadata.topics import NO_LEADER
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from tests.broker.worlds.data_world import BROKER, register
from tests.broker.worlds.txn_elsewhere import NONE, CoordinatedElsewhere
from tests.broker.worlds.txn_world import ABORT, COMMIT, PARTITIONS
from tests.coordinator.shard_world import PENDING


def added(request: Any) -> list[tuple[Any, ...]]:
    return [
        (
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.verify_only,
            [(topic.name, index) for topic in transaction.topics for index in topic.partitions],
        )
        for transaction in request.transactions
    ]


def verified(request: Any, *codes: ErrorCode) -> AddPartitionsToTxnResponse:
    """A response with one code for all partitions of each transaction."""
    response = AddPartitionsToTxnResponse
    return response(
        throttle_time_ms=0,
        results_by_transaction=[
            response.Result(
                transactional_id=transaction.transactional_id,
                topic_results=[
                    response.TopicResult(name=topic.name, results_by_partition=_results(topic, code))
                    for topic in transaction.topics
                ],
            )
            for transaction, code in zip(request.transactions, codes, strict=True)
        ],
    )


def _results(topic: Any, code: ErrorCode) -> list[AddPartitionsToTxnResponse.PartitionResult]:
    indexes: Iterable[int] = topic.partitions
    return [
        AddPartitionsToTxnResponse.PartitionResult(partition_index=index, partition_error_code=code)
        for index in indexes
    ]


@pytest.mark.parametrize(("version", "verify_only"), [(11, True), (12, False)])
def test_a_write_is_verified_with_its_coordinator_on_another_broker(version: int, verify_only: bool) -> None:
    # cluster.md 23 (KIP-890)
    world = CoordinatedElsewhere()
    assert world.write(0, "a", pid=7, version=version) is PENDING
    sent = world.asked()
    assert sent.broker_id == 2
    assert added(sent.request) == [("shop", 7, 0, verify_only, [("orders", 0)])]
    assert world.log("orders", 0).end_offset == 0
    sent.answer(verified(sent.request, NONE))
    assert world.outcome() is NONE
    assert world.log("orders", 0).end_offset == 1
    # Its transaction is known here from now on.
    assert world.write(0, "b", pid=7, sequence=1, version=version).error_code == 0
    assert world.to_coordinators.sent == []


@pytest.mark.parametrize(
    ("code", "version", "outcome"),
    [
        (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 12, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_errors_of_that_coordinator_as_the_producer_gets_them(
    code: ErrorCode, version: int, outcome: ErrorCode
) -> None:
    world = CoordinatedElsewhere()
    world.write(0, "a", version=version)
    sent = world.asked()
    sent.answer(verified(sent.request, code))
    assert world.outcome() is outcome
    assert world.log("orders", 0).end_offset == 0


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_request_that_is_refused_as_a_whole(code: ErrorCode, outcome: ErrorCode) -> None:
    world = CoordinatedElsewhere()
    world.write(0, "a")
    world.asked().answer(AddPartitionsToTxnResponse(throttle_time_ms=0, error_code=code))
    assert world.outcome() is outcome


def test_a_coordinator_that_does_not_respond_sends_the_producer_away() -> None:
    world = CoordinatedElsewhere()
    world.write(0, "a")
    world.asked().fail()
    assert world.outcome() is ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.log("orders", 0).end_offset == 0


@pytest.mark.parametrize(("version", "is_written"), [(11, True), (12, False)])
def test_a_coordinator_of_a_release_that_cannot_verify_is_trusted(version: int, is_written: bool) -> None:
    """As in Apache Kafka; but it cannot add partitions for a producer that does not add them itself."""
    world = CoordinatedElsewhere()
    world.to_coordinators.version = 3
    world.write(0, "a", version=version)
    world.tick()
    assert (world.outcome() is NONE) == is_written
    assert world.log("orders", 0).end_offset == int(is_written)


def test_a_response_without_the_partition_does_not_verify_it() -> None:
    world = CoordinatedElsewhere()
    world.write(0, "a")
    world.asked().answer(AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_transaction=[]))
    assert world.outcome() is ErrorCode.UNKNOWN_SERVER_ERROR


def test_without_a_live_coordinator_producers_retry() -> None:
    world = CoordinatedElsewhere()
    world.change(register(2, epoch=101, fenced=True))
    assert world.write(0, "a").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    for index in range(PARTITIONS):
        world.partition_change(TRANSACTION_STATE, index=index, leader=NO_LEADER)
    assert world.write(0, "a").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.to_coordinators.sent == []


def test_the_next_transaction_waits_for_the_markers_of_the_last() -> None:
    """Its guard was ended by the marker of the last transaction: the producer got INVALID_TXN_STATE."""
    world = CoordinatedElsewhere()
    world.write(0, "a", pid=7)
    world.asked().answer(verified_one())
    assert world.write(0, "b", pid=7, epoch=1) is PENDING
    sent = world.asked()
    sent.answer(verified(sent.request, ErrorCode.CONCURRENT_TRANSACTIONS))
    late = world.late
    world.marker(COMMIT, 0, pid=7, epoch=1)
    world.late = late
    world.tick(world.settings["add.partitions.to.txn.retry.backoff.ms"])
    sent = world.asked()
    sent.answer(verified(sent.request, NONE))
    assert world.outcome() is NONE
    assert world.markers_in(0) == [(1, 1, True)]
    assert world.log("orders", 0).end_offset == 3


def verified_one() -> AddPartitionsToTxnResponse:
    result = AddPartitionsToTxnResponse.PartitionResult(partition_index=0, partition_error_code=0)
    topic = AddPartitionsToTxnResponse.TopicResult(name="orders", results_by_partition=[result])
    return AddPartitionsToTxnResponse(
        throttle_time_ms=0,
        results_by_transaction=[
            AddPartitionsToTxnResponse.Result(transactional_id="shop", topic_results=[topic])
        ],
    )


def test_a_transaction_that_ended_while_a_write_was_verified_gets_no_records() -> None:
    # cluster.md 23: a late Produce of an earlier transaction.
    world = CoordinatedElsewhere()
    world.write(0, "a", pid=7)
    sent = world.asked()
    late = world.late
    world.marker(ABORT, 0, pid=7, epoch=1)
    world.late = late
    sent.answer(verified(sent.request, NONE))
    assert world.outcome() is ErrorCode.INVALID_TXN_STATE
    assert world.log("orders", 0).end_offset == 1, "the marker alone"


def test_writes_meanwhile_share_the_next_request() -> None:
    world = CoordinatedElsewhere()
    world.write(0, "a", name="a", pid=1)
    world.tick()
    outcomes = [world.late]
    for index, name, pid, epoch in ((1, "a", 1, 0), (2, "b", 2, 0), (3, "b", 2, 0), (1, "c", 3, 5)):
        world.write(index, "x", name=name, pid=pid, epoch=epoch)
        outcomes.append(world.late)
    first = world.asked()
    assert added(first.request) == [("a", 1, 0, False, [("orders", 0)])]
    first.answer(verified(first.request, NONE))
    second = world.asked()
    assert added(second.request) == [
        ("a", 1, 0, False, [("orders", 1)]),
        ("b", 2, 0, False, [("orders", 2), ("orders", 3)]),
        ("c", 3, 5, False, [("orders", 1)]),
    ]
    second.answer(verified(second.request, NONE, ErrorCode.NOT_COORDINATOR, NONE))
    codes = [late[0].responses[0].partition_responses[0].error_code for late in outcomes]
    assert codes == [NONE, NONE, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS, NONE]


@pytest.mark.parametrize("epochs", [(1, 2), (2, 1)])
def test_of_two_producers_the_older_is_fenced_without_a_request(epochs: tuple[int, int]) -> None:
    world = CoordinatedElsewhere()
    results = []
    for epoch in epochs:
        world.write(0, "x", pid=7, epoch=epoch)
        results.append((epoch, world.late))
    sent = world.asked()
    assert added(sent.request) == [("shop", 7, 2, False, [("orders", 0)])]
    sent.answer(verified(sent.request, NONE))
    codes = {epoch: late[0].responses[0].partition_responses[0].error_code for epoch, late in results}
    assert codes == {1: ErrorCode.INVALID_PRODUCER_EPOCH, 2: NONE}


def test_a_leader_that_lost_its_partition_meanwhile_writes_nothing() -> None:
    world = CoordinatedElsewhere()
    world.partition_change("orders", replicas=[BROKER, 3], isr=[BROKER, 3])
    world.write(0, "a")
    sent = world.asked()
    world.partition_change("orders", leader=3)
    sent.answer(verified(sent.request, NONE))
    assert world.outcome() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.log("orders", 0).end_offset == 0


def test_a_stopped_broker_sends_nothing() -> None:
    world = CoordinatedElsewhere()
    world.write(0, "a")
    world.transactions.stop()
    world.tick(MAX_RETRY_MS)
    assert [(channel.sent, channel.is_closed) for channel in world.channels.values()] == [([], True)] * 2


def test_an_error_of_our_own_release_is_not_a_version(caplog: pytest.LogCaptureFixture) -> None:
    world = CoordinatedElsewhere()
    world.write(0, "a", version=11)
    world.asked().fail(UnsupportedVersionError("no"))
    assert world.outcome() is NONE
    assert "broker 2 did not verify transactions" in caplog.text
