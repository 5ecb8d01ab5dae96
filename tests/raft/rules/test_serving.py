"""Fetch and FetchSnapshot at the leader (KIP-595, KIP-630, KIP-1166)."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.raft.log import OffsetAndEpoch
from barnabas.raft.messages import Append, DataRecords, Shutdown, SnapshotTaken
from barnabas.raft.quorum_state_file import ElectionState
from barnabas.raft.roles import Leader
from barnabas.raft.rpc import (
    HIGH_WATERMARK_NOT_REPORTED,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from barnabas.raft.rules.serving import MAX_DELAYED_FETCHES
from barnabas.raft.snapshot import FIRST_SNAPSHOT, SnapshotId
from barnabas.raft.voters import ReplicaKey
from tests.raft.harness import Node, leader_of, voter


def _leader(**loaded: object) -> Node:
    node = Node(**loaded)  # type: ignore[arg-type]
    node.lead()
    return node


def _error(response: object) -> ErrorCode:
    assert isinstance(response, FetchResponse | FetchSnapshotResponse)
    return response.error


def test_the_epoch_of_a_fetch_is_compared() -> None:
    # cluster.md 3; KIP-320, KAFKA-7395
    node = _leader(election=ElectionState(4))
    assert node.raft.epoch == 5
    assert _error(node.fetch(2, 0, 0, epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH
    assert _error(node.fetch(2, 0, 0, epoch=6)) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert node.raft.epoch == 5


def test_others_name_the_leader() -> None:
    node = Node()
    node.follow(2, 1)
    assert node.fetch(3, 0, 0) == FetchResponse(leader_of(1, 2), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert _error(Node().fetch(3, 0, 0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_that_shuts_down_alone() -> None:
    node = _leader()
    node.raft.quorum.is_shutting_down = True
    assert node.raft._serving.check_leader(1) is ErrorCode.BROKER_NOT_AVAILABLE
    node.request(Shutdown())
    assert node.role == "Resigned"


@pytest.mark.parametrize(("offset", "last_epoch", "wait_ns"), [(-1, 0, 0), (0, -1, 0), (0, 2, 0), (0, 0, -1)])
def test_invalid_fetches(offset: int, last_epoch: int, wait_ns: int) -> None:
    node = _leader()
    request = FetchRequest(voter(2).key, 1, offset, last_epoch, wait_ns)
    assert _error(node.request(request)) is ErrorCode.INVALID_REQUEST


def test_a_node_with_the_leaders_own_id() -> None:
    # As Apache Kafka; INVALID_REQUEST would end an Apache Kafka process.
    node = _leader()
    assert _error(node.fetch(1, 0, 0, disk=3)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert node.raft.high_watermark is None


def test_records_are_read_from_the_offset_of_the_fetch() -> None:
    node = _leader()
    assert node.fetch(2, 0, 0) == FetchResponse(leader_of(1, 1), read_from=0)
    assert node.fetch(2, 3, 1) == FetchResponse(leader_of(1, 1), high_watermark=3, read_from=3)


def test_a_diverging_fetch_does_not_count() -> None:
    # cluster.md 7; KAFKA-13141
    node = _leader(end=5, epochs=[(1, 0), (3, 4)], election=ElectionState(3), voters_offset=1)
    response = node.fetch(2, 6, 2)
    assert response == FetchResponse(leader_of(4, 1), diverging=OffsetAndEpoch(4, 1))
    assert node.fetch(2, 9, 4) == FetchResponse(leader_of(4, 1), diverging=OffsetAndEpoch(6, 4))
    assert node.raft.high_watermark is None
    role = node.raft.role
    assert isinstance(role, Leader)
    state = role.progress.state_of(voter(2).key)
    assert state is not None
    assert state.end_offset is None


def test_observers_are_served_and_do_not_commit() -> None:
    node = _leader()
    assert _error(node.fetch(9, 3, 1)) is ErrorCode.NONE
    # Nor does a node without an id, or with the disk that is no voter's.
    node.request(FetchRequest(ReplicaKey(-1), 1, 3, 1))
    node.fetch(2, 3, 1, disk=4)
    assert node.raft.high_watermark is None


def test_a_fetch_waits_for_records() -> None:
    node = _leader()
    node.fetch(2, 3, 1)
    assert node.fetch(2, 3, 1, wait_ms=500, high_watermark=3) is None
    assert node.request(Append(1, DataRecords((b"x",), 0))) == _empty(3)
    assert node.fetch(3, 3, 1, wait_ms=500, high_watermark=3) == FetchResponse(
        leader_of(1, 1), high_watermark=3, read_from=3
    )


def test_a_fetch_waits_for_the_high_watermark() -> None:
    # KIP-1166
    node = _leader()
    assert node.fetch(3, 3, 1, wait_ms=500, high_watermark=-1) is not None
    assert node.raft.high_watermark == 3
    assert node.fetch(3, 3, 1, wait_ms=500, high_watermark=3) is None
    # A follower of an older release does not say what it knows.
    assert node.fetch(2, 3, 1, wait_ms=500, high_watermark=HIGH_WATERMARK_NOT_REPORTED) is None
    assert node.request(Append(1, DataRecords((b"x",), 0))) == _empty(3)


def test_a_fetch_expires() -> None:
    node = _leader()
    node.fetch(3, 3, 1)
    assert node.fetch(3, 3, 1, wait_ms=500, high_watermark=3) is None
    replies = node.at(3500)
    assert any(getattr(effect, "message", None) == _empty(3) for effect in replies)


def _empty(high_watermark: int) -> FetchResponse:
    return FetchResponse(leader_of(1, 1), high_watermark=high_watermark, read_from=3)


def test_waiting_fetches_are_bounded() -> None:
    node = _leader()
    node.fetch(3, 3, 1)
    node.fetch(3, 3, 1, wait_ms=500, high_watermark=3)
    role = node.raft.role
    assert isinstance(role, Leader)
    role.delayed_fetches *= MAX_DELAYED_FETCHES
    response = node.fetch(3, 3, 1, wait_ms=500, high_watermark=3)
    assert _error(response) is ErrorCode.BROKER_NOT_AVAILABLE


# Snapshots


def test_a_follower_that_starts_fetches_the_snapshot() -> None:
    snapshot = SnapshotId(8, 2)
    node = _leader(
        end=9, epochs=[(1, 0), (2, 5)], snapshot=snapshot, election=ElectionState(2), voters_offset=1
    )
    # The log is still there, but a snapshot is faster.
    assert node.fetch(2, 0, 0) == FetchResponse(leader_of(3, 1), snapshot=snapshot)
    assert _error(node.fetch(2, 5, 1)) is ErrorCode.NONE


def test_the_first_snapshot_is_not_replicated() -> None:
    # KIP-853: its content is in the log.
    node = _leader(snapshot=FIRST_SNAPSHOT)
    assert node.fetch(2, 0, 0) == FetchResponse(leader_of(1, 1), read_from=0)
    request = FetchSnapshotRequest(voter(2).key, 1, FIRST_SNAPSHOT, 0)
    assert _error(node.request(request)) is ErrorCode.SNAPSHOT_NOT_FOUND


def test_records_that_were_deleted_come_with_the_snapshot() -> None:
    node = _leader()
    node.fetch(2, 3, 1)
    node.request(SnapshotTaken(SnapshotId(3, 1), 3))
    response = node.fetch(3, 1, 1)
    assert response == FetchResponse(leader_of(1, 1), high_watermark=3, snapshot=SnapshotId(3, 1))
    assert node.fetch(3, 3, 1) == _empty(3)


def test_fetch_snapshot() -> None:
    node = _leader()
    key, snapshot = voter(2).key, SnapshotId(5, 1)
    response = node.request(FetchSnapshotRequest(key, 1, snapshot, 40))
    assert response == FetchSnapshotResponse(leader_of(1, 1), snapshot=snapshot, position=40)
    assert _error(node.request(FetchSnapshotRequest(key, 0, snapshot, 0))) is ErrorCode.FENCED_LEADER_EPOCH
    assert _error(node.request(FetchSnapshotRequest(key, 2, snapshot, 0))) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert _error(node.request(FetchSnapshotRequest(key, 1, snapshot, -1))) is ErrorCode.POSITION_OUT_OF_RANGE
    other = Node()
    request = FetchSnapshotRequest(key, 0, snapshot, 0)
    assert _error(other.request(request)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
