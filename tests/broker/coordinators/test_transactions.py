"""Transactions on a broker: from requests to markers in partitions, through restarts, failures and time."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.hashing import partition_for_group
from barnabas.base.topic_names import TRANSACTION_STATE
from barnabas.broker.coordinators.marker_sender import RETRY_MS
from barnabas.broker.handlers import write_txn_markers
from barnabas.metadata.topics import NO_LEADER
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from barnabas.protocol.records import metadata as records
from barnabas.runtime.disk.memory_disk import MemoryDisk
from tests.broker.worlds.data_world import BROKER, fetch_request, partition_answers, values_in
from tests.broker.worlds.txn_world import (
    ABORT,
    COMMIT,
    PARTITIONS,
    TIMEOUT_MS,
    TxnWorld,
    follower_catches_up,
    open_with_slow_partition,
)
from tests.coordinator.shard_world import PENDING

READ_COMMITTED = 1
HOUR_MS = 3_600_000


def read(world: TxnWorld, index: int = 0, *, isolation: int = READ_COMMITTED) -> Any:
    answer = world.fetch(fetch_request("orders", {index: 0}, isolation_level=isolation))
    return partition_answers(answer)["orders", index]


@pytest.mark.trap
def test_committed_records_are_read_when_the_transaction_ends() -> None:
    """Trap 9: read_committed must not leak aborted records; aborted-transaction list and LSO right."""
    world = TxnWorld()
    world.init()
    assert world.write(0, "a", "b").base_offset == 0
    data = read(world)
    assert (data.last_stable_offset, data.high_watermark, values_in(data)) == (0, 2, [])
    assert [value for _, value in values_in(read(world, isolation=0))] == [b"a", b"b"]
    assert world.end(COMMIT).error_code == 0
    data = read(world)
    assert (data.last_stable_offset, data.aborted_transactions) == (3, [])
    assert world.write(0, "c", epoch=1).base_offset == 3
    assert world.end(ABORT, epoch=1).error_code == 0
    data = read(world)
    assert data.last_stable_offset == 5
    assert [(one.producer_id, one.first_offset) for one in data.aborted_transactions] == [(0, 3)]
    assert world.markers_in() == [(2, 1, True), (4, 2, False)]


@pytest.mark.trap
def test_the_epoch_grows_with_each_transaction() -> None:
    """Trap 22: transactions under delay: epoch bump per transaction (KIP-890)."""
    world = TxnWorld()
    world.init()
    for epoch in range(3):
        assert world.write(0, f"t{epoch}", epoch=epoch).error_code == 0
        ended = world.end(COMMIT, epoch=epoch)
        assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, 0, epoch + 1)
        # A delayed request must not become part of the next transaction.
        late = world.write(1, "late", epoch=epoch)
        assert late.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        again = world.end(COMMIT, epoch=epoch)
        assert (again.error_code, again.producer_epoch) == (0, epoch + 1)
    assert world.markers_in(1) == []


def test_a_client_that_adds_partitions_itself() -> None:
    world = TxnWorld(level=1)
    world.init()
    assert world.write(0, "a", version=11).error_code == ErrorCode.TRANSACTION_ABORTABLE
    refused = world.write(0, "a", version=9)
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_TXN_STATE,
        "Partition was not added to the transaction",
    )
    assert world.add(0, 1) == [ErrorCode.NONE, ErrorCode.NONE]
    assert world.write(0, "a", version=11).error_code == 0
    assert world.end(COMMIT, version=4).error_code == 0
    assert world.markers_in(0) == [(1, 0, True)]
    assert world.markers_in(1) == [(0, 0, True)]  # it was added, if never written to
    assert world.add(0) == [ErrorCode.NONE]


def test_verification_may_be_switched_off_for_them() -> None:
    world = TxnWorld(level=1, options={"transaction.partition.verification.enable": "false"})
    world.init()
    assert world.write(0, "a", version=11).error_code == 0
    assert world.write(0, "a", pid=5, version=12).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize(
    ("ask", "first_that_knows"),
    [
        (lambda world, version: world.init(version=version, producer_id=0, producer_epoch=0), 4),
        (lambda world, version: world.end(COMMIT, version=version), 2),
    ],
)
def test_older_clients_get_an_older_code_for_fenced(ask: Any, first_that_knows: int) -> None:
    world = TxnWorld(level=1)
    world.init()
    world.init()
    world.init()
    assert ask(world, first_that_knows).error_code == ErrorCode.PRODUCER_FENCED
    assert ask(world, first_that_knows - 1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_second_producer_takes_over() -> None:
    world = TxnWorld()
    world.init()
    world.write(0, "a")
    assert world.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert (world.state(), world.markers_in()) == ("CompleteAbort", [(1, 1, False)])
    begun = world.init()
    assert (begun.error_code, begun.producer_id, begun.producer_epoch) == (0, 0, 2)
    assert world.write(0, "b").error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_no_producer_ids_to_be_had() -> None:
    world = TxnWorld()
    world.metadata.producer_ids_error = ErrorCode.STALE_BROKER_EPOCH
    assert world.init().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.metadata.producer_ids_error = 0
    assert world.init().error_code == 0


def test_without_its_topic_there_is_no_coordinator() -> None:
    world = TxnWorld(topics=False)
    world.topic("orders")
    assert world.init().error_code == ErrorCode.NOT_COORDINATOR
    refused = world.write(0, "a", pid=5)
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert "COORDINATOR_NOT_AVAILABLE" in refused.error_message


# Markers


def test_an_end_waits_for_slow_partitions_and_the_producer_does_not() -> None:
    world = TxnWorld(level=1)
    open_with_slow_partition(world)
    assert world.end(COMMIT, version=4).error_code == 0
    assert world.state() == "PrepareCommit"
    assert world.markers_in(0) == [(0, 0, True)]
    assert world.add(1) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert world.end(COMMIT, version=4).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    follower_catches_up(world)
    assert world.state() == "CompleteCommit"
    assert world.add(1) == [ErrorCode.NONE]


def test_the_next_transaction_waits_a_little_for_the_last() -> None:
    world = TxnWorld()
    open_with_slow_partition(world)
    world.write(0, "a")
    world.end(COMMIT)
    assert world.write(1, "b", epoch=1) is PENDING
    world.tick(20)
    follower_catches_up(world)
    assert world.late == []
    world.tick(20)
    assert world.late[0].responses[0].partition_responses[0].error_code == 0


def test_a_last_transaction_that_takes_long_sends_the_next_away() -> None:
    world = TxnWorld()
    open_with_slow_partition(world)
    world.end(COMMIT)
    assert world.write(1, "b", epoch=1) is PENDING
    for _ in range(6):
        world.tick(20)
    answer = world.late[0].responses[0].partition_responses[0]
    # With codes that every client retries.
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert "CONCURRENT_TRANSACTIONS" in answer.error_message
    assert world.log("orders", 1).end_offset == 0


def test_partitions_without_a_leader_get_their_markers_later() -> None:
    world = TxnWorld(level=1)
    world.topic("moved", replicas=(BROKER, 2), isr=(BROKER,))
    world.init()
    world.add(0, topic="moved")
    world.partition_change("moved", leader=NO_LEADER, isr=[2])
    assert world.end(ABORT, version=4).error_code == 0
    for _ in range(5):
        world.tick(RETRY_MS)
        assert world.state() == "PrepareAbort"
    world.partition_change("moved", leader=BROKER, isr=[BROKER])
    world.tick(RETRY_MS)
    assert world.state() == "CompleteAbort"
    assert world.markers_in(topic="moved") == [(0, 0, False)]
    assert len(world.transactions.marker_sender) == 0


def test_deleted_partitions_need_not_know() -> None:
    world = TxnWorld(level=1)
    topic_id = world.topic("gone")
    world.init()
    world.add(0, topic="gone")
    world.change(records.RemoveTopicRecord(topic_id=topic_id))
    assert world.end(COMMIT, version=4).error_code == 0
    assert world.state() == "CompleteCommit"


def test_markers_of_many_partitions_are_sent_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TxnWorld(level=1)
    world.topic("wide", 50)
    world.init()
    world.add(*range(50), topic="wide")
    written = world.transactions.markers.write

    def slowly(*args: Any) -> Any:
        world.clock.now_ms += 1
        return written(*args)

    monkeypatch.setattr(world.transactions.markers, "write", slowly)
    before_ms = world.clock.now_ms
    assert world.end(COMMIT, version=4).error_code == 0
    assert world.clock.now_ms - before_ms <= 11
    assert world.state() == "PrepareCommit"
    for _ in range(10):
        world.tick(1)
    assert world.state() == "CompleteCommit"
    assert all(world.markers_in(index, "wide") for index in range(50))


@pytest.mark.trap
def test_a_hanging_transaction_is_ended_by_an_administrator() -> None:
    """Trap 9: the last stable offset advances when a hanging transaction is aborted (KIP-664)."""
    # cluster.md 24
    world = TxnWorld(level=1, options={"transaction.partition.verification.enable": "false"})
    assert world.write(0, "hangs", pid=77, version=9, name="lost").error_code == 0
    assert read(world).last_stable_offset == 0
    answer = world.marker(ABORT, 0, 9, pid=77)
    codes = {one.partition_index: one.error_code for one in answer.markers[0].topics[0].partitions}
    assert codes == {0: 0, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    data = read(world)
    assert data.last_stable_offset == 2
    assert [(one.producer_id, one.first_offset) for one in data.aborted_transactions] == [(77, 0)]


def test_a_marker_that_is_repeated_in_a_request_is_written_once() -> None:
    """F2: a request of a megabyte has 32,000 markers, and wrote as many batches."""
    world = TxnWorld()
    topics = [WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="orders", partition_indexes=[0, 0])]
    markers = [
        WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=9, producer_epoch=epoch, transaction_result=COMMIT, topics=topics, coordinator_epoch=0
        )
        for epoch in (3, 3, 4, 3)
    ]
    answer = world.answer(write_txn_markers, WriteTxnMarkersRequest(markers=markers), 1)
    (marker,) = answer.markers
    results = [(partition.partition_index, partition.error_code) for partition in marker.topics[0].partitions]
    # The last marker has an earlier epoch.
    assert (marker.producer_id, results) == (9, [(0, ErrorCode.INVALID_PRODUCER_EPOCH)])
    assert [epoch for _, epoch, _ in world.markers_in(0)] == [3, 4]


def test_markers_of_older_coordinators_and_producers_are_refused() -> None:
    world = TxnWorld()
    assert world.marker(COMMIT, 0, pid=9, epoch=3, coordinator_epoch=2).markers[0].topics[0]
    for epoch, coordinator_epoch, code in (
        (3, 1, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (2, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        answer = world.marker(COMMIT, 0, pid=9, epoch=epoch, coordinator_epoch=coordinator_epoch)
        assert answer.markers[0].topics[0].partitions[0].error_code == code


def test_an_end_that_was_taken_over_is_given_up() -> None:
    world = TxnWorld(level=1)
    world.init()
    world.add(0)
    # A coordinator of a later epoch has written a marker.
    world.marker(ABORT, 0, coordinator_epoch=9)
    world.end(COMMIT, version=4)
    assert world.state() == "PrepareCommit"
    assert len(world.transactions.marker_sender) == 0


def test_a_marker_expires_without_a_follower() -> None:
    world = TxnWorld()
    world.topic("slow", replicas=(BROKER, 2))
    assert world.marker(ABORT, 0, topic="slow", pid=9) is PENDING
    world.tick(world.settings["request.timeout.ms"])
    partition = world.late[0].markers[0].topics[0].partitions[0]
    assert partition.error_code == ErrorCode.REQUEST_TIMED_OUT


# Restarts and leadership


def restarted(world: TxnWorld) -> TxnWorld:
    """The same directory, after a stop without a shutdown of the coordinators."""
    world.stop()
    again = TxnWorld(disk=world.disk, image=world.image)
    again.clock.now_ms = world.clock.now_ms
    return again


def test_prepared_transactions_are_completed_after_a_restart() -> None:
    world = TxnWorld(level=1, disk=MemoryDisk())
    open_with_slow_partition(world)
    world.end(COMMIT, version=4)
    assert world.state() == "PrepareCommit"
    again = restarted(world)
    # The coordinator may be ready before the partitions are, and then retries: twice at most.
    for _ in range(3):
        follower_catches_up(again)
        again.tick(RETRY_MS)
    assert again.state() == "CompleteCommit"


def test_an_open_transaction_continues_after_a_restart() -> None:
    world = TxnWorld(disk=MemoryDisk())
    world.init()
    world.write(0, "a")
    again = restarted(world)
    assert again.state() == "Ongoing"
    assert again.write(0, "b", sequence=1).error_code == 0
    ended = again.end(COMMIT)
    assert (ended.error_code, ended.producer_epoch) == (0, 1)
    assert [value for _, value in values_in(read(again))][:2] == [b"a", b"b"]


def test_a_coordinator_that_resigns_leaves_the_end_to_the_next() -> None:
    world = TxnWorld(level=1)
    index = partition_for_group("shop", PARTITIONS)
    open_with_slow_partition(world)
    world.end(COMMIT, version=4)
    world.partition_change(TRANSACTION_STATE, index, leader=2, isr=[2])
    assert len(world.transactions.marker_sender) == 0
    assert world.init().error_code == ErrorCode.NOT_COORDINATOR
    follower_catches_up(world)
    world.partition_change(TRANSACTION_STATE, index, leader=BROKER, isr=[BROKER])
    for _ in range(20):
        world.tick(1)
    # The next coordinator sends the slow partition's marker again, with its own epoch.
    follower_catches_up(world)
    assert world.state() == "CompleteCommit"
    producer = world.log("orders").producers.entries[0]
    assert producer.coordinator_epoch == world.replicas.partitions[TRANSACTION_STATE, index].leader_epoch > 0


# Timeouts


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    world = TxnWorld()
    world.init()
    world.write(0, "a")
    every_ms: int = world.settings["transaction.abort.timed.out.transaction.cleanup.interval.ms"]
    while world.clock.now_ms <= world.known().start_ms + TIMEOUT_MS:
        assert world.state() == "Ongoing"
        world.tick(every_ms)
    world.tick(every_ms)
    assert world.state() == "CompleteAbort"
    assert world.markers_in() == [(1, 1, False)]
    assert world.write(0, "b", sequence=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.end(COMMIT).error_code == ErrorCode.INVALID_TXN_STATE


def test_unused_ids_are_forgotten() -> None:
    world = TxnWorld(options={"transactional.id.expiration.ms": str(3 * HOUR_MS)})
    world.init()
    world.init("busy")
    world.add(0, pid=1, name="busy")
    for _ in range(3):
        world.tick(HOUR_MS)
    assert [one.transactional_id for one in world.listed().transaction_states] == ["busy"]
    begun = world.init()
    assert (begun.producer_id, begun.producer_epoch) == (2, 0)  # as if it had never existed


def test_a_coordinator_without_space_answers_with_an_error_that_clients_retry() -> None:
    world = TxnWorld()
    world.init()
    world.write(0, "a")
    full = world.replicas.storage.manager.full
    full.add("/data", "a test says so")
    assert world.end(COMMIT).error_code == ErrorCode.NOT_COORDINATOR
    assert world.markers_in() == []
    full.has_room("/data")
    assert world.end(COMMIT).error_code == 0
    assert world.markers_in() == [(1, 1, True)]


def test_a_prepared_transaction_completes_when_its_coordinator_has_room() -> None:
    world = TxnWorld(level=1)
    open_with_slow_partition(world)
    world.end(COMMIT, version=4)
    full = world.replicas.storage.manager.full
    full.add("/data", "a test says so")
    follower_catches_up(world)
    for _ in range(20):
        world.tick(RETRY_MS)
    assert world.state() == "PrepareCommit"
    full.has_room("/data")
    for _ in range(20):
        world.tick(10 * RETRY_MS)
    assert world.state() == "CompleteCommit"
