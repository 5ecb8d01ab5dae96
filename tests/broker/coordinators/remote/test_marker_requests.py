"""Markers go to the brokers that lead the partitions of a transaction (M-F3)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.hashing import partition_for_group
from barnabas.base.topic_names import TRANSACTION_STATE
from barnabas.broker.coordinators.marker_sender import MAX_RETRY_MS, RETRY_MS
from barnabas.metadata.topics import NO_LEADER
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from barnabas.protocol.records import metadata as records
from tests.broker.worlds.data_world import BROKER, register
from tests.broker.worlds.txn_elsewhere import NONE, Elsewhere
from tests.broker.worlds.txn_world import ABORT, COMMIT, PARTITIONS, Sent, TxnWorld
from tests.coordinator.shard_world import PENDING

SHOP = partition_for_group("shop", PARTITIONS)


def written(request: Any) -> list[tuple[Any, ...]]:
    """Producer id, epoch, outcome, coordinator epoch and partitions of each marker of a request."""
    return [
        (
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes],
        )
        for marker in request.markers
    ]


def markers_answered(request: Any, codes: dict[tuple[str, int], ErrorCode]) -> WriteTxnMarkersResponse:
    """A response to a request; NONE for partitions without a code."""
    response = WriteTxnMarkersResponse
    return response(
        markers=[
            response.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    response.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            response.WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=codes.get((topic.name, index), NONE)
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def answer_markers(sent: Sent, **codes: ErrorCode) -> None:
    sent.answer(markers_answered(sent.request, {(topic, 0): code for topic, code in codes.items()}))


def test_markers_go_to_the_leaders_of_the_partitions() -> None:
    # M-F3: one request for each broker.
    world = Elsewhere(level=1)
    world.open("orders", "far", "farther")
    assert world.end(COMMIT, version=4).error_code == 0
    first, second = world.markers(2)
    assert first.broker_id == 2
    assert written(first.request) == [(0, 0, True, 0, [("far", 0), ("far", 1)])]
    assert second.broker_id == 3
    assert written(second.request) == [(0, 0, True, 0, [("farther", 0)])]
    assert world.markers_in(0) == [(0, 0, True)], "this broker's own"
    answer_markers(first)
    assert world.state() == "PrepareCommit"
    answer_markers(second)
    assert world.state() == "CompleteCommit"


def test_markers_for_a_broker_wait_for_its_last_response_and_share_a_request() -> None:
    world = Elsewhere(level=1)
    for name, pid in (("a", 0), ("b", 1), ("c", 2)):
        world.init(name)
        world.add(0, pid=pid, name=name, topic="far")
    world.end(COMMIT, name="a", pid=0, version=4)
    (first,) = world.markers()
    world.end(COMMIT, name="b", pid=1, version=4)
    world.end(ABORT, name="c", pid=2, version=4)
    world.markers(0)
    answer_markers(first)
    (second,) = world.markers()
    assert written(second.request) == [
        (1, 0, True, 0, [("far", 0)]),
        (2, 0, False, 0, [("far", 0)]),
    ]
    answer_markers(second)
    assert [world.state(name) for name in "abc"] == ["CompleteCommit", "CompleteCommit", "CompleteAbort"]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ],
)
def test_a_partition_that_refuses_gets_its_marker_again(code: ErrorCode) -> None:
    world = Elsewhere(level=1)
    world.open("far")
    world.end(ABORT, version=4)
    (sent,) = world.markers()
    answer_markers(sent, far=code)
    world.markers(0)
    world.tick(RETRY_MS)
    (again,) = world.markers()
    assert written(again.request) == [(0, 0, False, 0, [("far", 0)])], "the other one has it"
    answer_markers(again)
    assert world.state() == "CompleteAbort"


@pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION])
def test_a_partition_that_cannot_have_transactions_needs_no_marker(code: ErrorCode) -> None:
    world = Elsewhere(level=1)
    world.open("far")
    world.end(COMMIT, version=4)
    (sent,) = world.markers()
    answer_markers(sent, far=code)
    assert world.state() == "CompleteCommit"


@pytest.mark.parametrize("code", [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_fenced_coordinator_gives_up(code: ErrorCode) -> None:
    world = Elsewhere(level=1)
    world.open("far")
    world.end(COMMIT, version=4)
    (sent,) = world.markers()
    answer_markers(sent, far=code)
    world.tick(MAX_RETRY_MS)
    world.markers(0)
    assert world.state() == "PrepareCommit"
    assert len(world.transactions.marker_sender) == 0


def test_markers_are_sent_until_the_broker_responds_and_less_and_less_often() -> None:
    world = Elsewhere(level=1)
    world.open("far")
    world.end(COMMIT, version=4)
    delay_ms = RETRY_MS
    for _ in range(8):
        (sent,) = world.markers()
        sent.fail()
        world.tick(delay_ms - 1)
        world.markers(0)
        world.tick(1)
        delay_ms = min(2 * delay_ms, MAX_RETRY_MS)
    (sent,) = world.markers()
    answer_markers(sent)
    assert world.state() == "CompleteCommit"


def test_a_response_that_leaves_out_a_partition_is_no_success() -> None:
    world = Elsewhere(level=1)
    world.open("far")
    world.end(COMMIT, version=4)
    (sent,) = world.markers()
    response = markers_answered(sent.request, {})
    response.markers[0].topics[0].partitions.pop()
    sent.answer(response)
    world.tick(RETRY_MS)
    (again,) = world.markers()
    assert written(again.request) == [(0, 0, True, 0, [("far", 1)])]


def test_markers_follow_a_partition_to_its_next_leader_at_once() -> None:
    world = Elsewhere(level=1)
    world.open("far")
    world.end(COMMIT, version=4)
    (sent,) = world.markers()
    for _ in range(8):
        sent.fail()
        world.tick(MAX_RETRY_MS)
        (sent,) = world.markers()
    sent.fail()
    topic_id = world.image.topic_ids["far"]
    moved: dict[str, Any] = {"topic_id": topic_id, "replicas": [3], "leader": 3, "isr": [3]}
    world.change(*(records.PartitionChangeRecord(partition_id=index, **moved) for index in range(2)))
    (sent,) = world.markers()
    assert sent.broker_id == 3
    answer_markers(sent)
    assert world.state() == "CompleteCommit"


def test_a_dead_leader_is_not_asked_and_its_requests_end() -> None:
    world = Elsewhere(level=1)
    world.open("far")
    world.change(register(2, epoch=101, fenced=True))
    assert [channel.checks for channel in world.channels.values()] == [1, 1]
    world.end(COMMIT, version=4)
    world.tick(MAX_RETRY_MS)
    world.markers(0)
    world.change(register(2, epoch=102))
    (sent,) = world.markers()
    answer_markers(sent)
    assert world.state() == "CompleteCommit"


def test_a_topic_that_is_deleted_while_its_leader_is_away_needs_no_marker() -> None:
    world = Elsewhere(level=1)
    world.open("far")
    for index in range(2):
        world.partition_change("far", index=index, leader=NO_LEADER)
    world.end(COMMIT, version=4)
    assert world.state() == "PrepareCommit"
    world.change(records.RemoveTopicRecord(topic_id=world.image.topic_ids["far"]))
    assert world.state() == "CompleteCommit"
    world.markers(0)


# The coordinator moves


def lose(world: TxnWorld) -> None:
    world.partition_change(TRANSACTION_STATE, index=SHOP, replicas=[2, BROKER], leader=2, isr=[2])


def win(world: TxnWorld) -> None:
    world.partition_change(TRANSACTION_STATE, index=SHOP, leader=BROKER, isr=[BROKER, 2])


def test_a_coordinator_that_moves_away_sends_nothing_more() -> None:
    # cluster.md 3, 23: zombies.
    world = Elsewhere(level=1)
    world.init("other")
    world.add(0, name="other", topic="far")
    world.end(COMMIT, name="other", version=4)
    (in_flight,) = world.markers()
    world.init()
    world.add(0, 1, pid=1, topic="far")
    world.end(COMMIT, pid=1, version=4)
    lose(world)
    assert world.end(COMMIT, pid=1, version=4).error_code == ErrorCode.NOT_COORDINATOR
    answer_markers(in_flight)
    world.tick(MAX_RETRY_MS)
    assert [written(sent.request) for sent in world.markers(len(world.to_partitions.sent))] == []
    assert len(world.transactions.marker_sender) == 0


def test_a_late_response_to_a_former_coordinator_completes_nothing() -> None:
    world = Elsewhere(level=1)
    world.open("far")
    world.end(COMMIT, version=4)
    (sent,) = world.markers()
    lose(world)
    end_offset = world.log(TRANSACTION_STATE, SHOP).end_offset
    answer_markers(sent)
    world.tick(MAX_RETRY_MS)
    assert world.log(TRANSACTION_STATE, SHOP).end_offset == end_offset


def test_the_next_coordinator_sends_them_with_its_own_epoch() -> None:
    world = Elsewhere(level=1)
    world.open("far")
    world.end(COMMIT, version=4)
    (former,) = world.markers()
    lose(world)
    world.partition_change(TRANSACTION_STATE, index=SHOP, leader=BROKER, isr=[BROKER])
    former.fail()
    (sent,) = world.markers()
    assert written(sent.request) == [(0, 0, True, 2, [("far", 0), ("far", 1)])]
    answer_markers(sent)
    assert world.state() == "CompleteCommit"


def test_the_next_coordinator_sends_no_marker_before_the_decision_is_committed() -> None:
    """The new leader has the decision, but its follower may not: a later leader could decide otherwise."""
    world = Elsewhere(level=1, options={"replica.lag.time.max.ms": "300000"})
    world.open("orders", "far")
    world.partition_change(TRANSACTION_STATE, index=SHOP, replicas=[BROKER, 2], isr=[BROKER, 2])
    assert world.end(COMMIT, version=4) is PENDING
    world.partition_change(TRANSACTION_STATE, index=SHOP, leader=2)
    assert world.late[0].error_code == ErrorCode.NOT_COORDINATOR
    win(world)
    world.tick(MAX_RETRY_MS)
    world.markers(0)
    assert world.markers_in(0) == []
    world.partition_change(TRANSACTION_STATE, index=SHOP, isr=[BROKER])
    (sent,) = world.markers()
    answer_markers(sent)
    assert world.markers_in(0) == [(0, 0, True)]
    assert world.state() == "CompleteCommit"
