"""Transactions whose coordinator waits for the replicas of its log longer than the request timeout."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.hashing import partition_for_group
from barnabas.base.topic_names import TRANSACTION_STATE
from barnabas.broker.coordinators.marker_sender import RETRY_MS
from tests.broker.worlds.data_world import BROKER
from tests.broker.worlds.txn_world import (
    COMMIT,
    PARTITIONS,
    TxnWorld,
    follower_catches_up,
    open_with_slow_partition,
)
from tests.coordinator.shard_world import PENDING

INDEX = partition_for_group("shop", PARTITIONS)
SWEEP_MS = "transaction.abort.timed.out.transaction.cleanup.interval.ms"


def slow_coordinator(world: TxnWorld, isr: list[int]) -> None:
    """The log of `shop`'s coordinator has a second replica, in sync or not, that does not fetch."""
    world.partition_change(TRANSACTION_STATE, index=INDEX, replicas=[BROKER, 2], isr=isr)


def test_markers_are_sent_for_a_decision_that_is_committed_after_its_request_timed_out() -> None:
    world = TxnWorld(level=1)
    world.init()
    world.add(0)
    slow_coordinator(world, [BROKER, 2])
    assert world.end(COMMIT, version=4) is PENDING
    world.tick(world.settings["request.timeout.ms"])
    assert world.late[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    slow_coordinator(world, [BROKER])
    world.tick(world.settings[SWEEP_MS])
    assert world.end(COMMIT, version=4).error_code == 0
    assert world.state() == "CompleteCommit"
    assert world.markers_in(0) == [(0, 0, True)]


def test_no_marker_is_sent_before_the_decision_is_committed() -> None:
    # The leader waits longer for its follower than the producer's timeout and the sweep interval.
    world = TxnWorld(level=1, options={"request.timeout.ms": "1000", "replica.lag.time.max.ms": "300000"})
    world.init()
    world.add(0)
    slow_coordinator(world, [BROKER, 2])
    assert world.end(COMMIT, version=4) is PENDING
    for _ in range(5):
        world.tick(world.settings[SWEEP_MS])
    assert world.late[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.markers_in(0) == []


def test_sweeps_do_not_queue_up_behind_one_that_waits(caplog: pytest.LogCaptureFixture) -> None:
    world = TxnWorld(level=1, options={SWEEP_MS: "1000", "replica.lag.time.max.ms": "300000"})
    world.init()
    world.add(0)
    slow_coordinator(world, [BROKER, 2])
    assert world.end(COMMIT, version=4) is PENDING
    for _ in range(20):
        world.tick(1000)
    world.partition_change(TRANSACTION_STATE, index=INDEX, replicas=[BROKER, 2], isr=[2], leader=2)
    assert [record.getMessage() for record in caplog.records if "next sweep" in record.getMessage()] == [
        "expired transactions are left for the next sweep: NOT_COORDINATOR: This is not the correct coordinator."
    ]


def test_a_producer_that_was_sent_away_while_its_predecessor_is_aborted_may_come_again() -> None:
    world = TxnWorld(level=1)
    world.init()
    world.add(0)
    slow_coordinator(world, [BROKER, 2])
    assert world.init() is PENDING
    world.tick(world.settings["request.timeout.ms"])
    assert world.late[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    slow_coordinator(world, [BROKER])
    world.tick(world.settings[SWEEP_MS])
    assert world.state() == "CompleteAbort"
    again = world.init()
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, 0, 2)
    assert [committed for _, _, committed in world.markers_in(0)] == [False]


def test_a_late_completion_is_written_once() -> None:
    world = TxnWorld(level=1)
    open_with_slow_partition(world)
    world.end(COMMIT, version=4)
    slow_coordinator(world, [BROKER, 2])
    follower_catches_up(world)
    assert len(world.transactions.marker_sender) == 1, "complete, but not committed"
    world.tick(world.settings["request.timeout.ms"])
    assert len(world.transactions.marker_sender) == 1, "it is retried"
    slow_coordinator(world, [BROKER])
    world.tick(RETRY_MS)
    assert len(world.transactions.marker_sender) == 0
    assert world.state() == "CompleteCommit"
    assert world.end(COMMIT, version=4).error_code == 0
