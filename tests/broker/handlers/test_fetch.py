"""Fetch: limits, long polls, sessions, epochs, isolation."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.batch.control import EndTransactionMarker, build_marker
from barnabas.broker.handlers import fetch
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.storage.producers.producer_append import AppendOrigin
from tests.broker.worlds.data_world import (
    T0,
    Forbid,
    World,
    batch_of,
    batches_in,
    codes,
    fetch_request,
    partition_answers,
    result_of,
    values_in,
)

VERSIONS = range(4, 19)


def world_with_records() -> World:
    """Partition 0 has three batches of two records, partition 1 three large ones, partition 2 is empty."""
    world = World()
    world.topic("orders", 4)
    for _ in range(3):
        world.produce("orders", batch_of(b"a" * 100, b"b" * 100))
        world.produce("orders", batch_of(b"c" * 1000), index=1)
    return world


def by_version(world: World, request: FetchRequest, version: int) -> FetchRequest:
    """Topic names or ids, depending on the version."""
    topics: list[Any] = [*request.topics, *request.forgotten_topics_data]
    for topic in topics:
        if version >= 13:
            topic.topic_id = world.image.topic_ids.get(topic.topic, Uuid(bytes(15) + b"\x99"))
            topic.topic = ""
    return request


def ask(world: World, version: int, offsets: dict[int, int], **fields: Any) -> FetchResponse:
    response: FetchResponse = world.fetch(
        by_version(world, fetch_request("orders", offsets, **fields), version), version
    )
    return response


def sizes(response: FetchResponse) -> dict[int, int]:
    return {key[1]: len(one.records) for key, one in partition_answers(response).items()}  # type: ignore[arg-type]


BATCH = len(batch_of(b"a" * 100, b"b" * 100))
LARGE = len(batch_of(b"c" * 1000))


@pytest.mark.parametrize("version", VERSIONS)
def test_records_and_watermarks(version: int) -> None:
    world = world_with_records()
    response = ask(world, version, {0: 0, 2: 0})
    topic = response.responses[0]
    assert (topic.topic, topic.topic_id) == (
        ("orders", Uuid(bytes(16))) if version < 13 else ("", world.image.topic_ids["orders"])
    )
    first, second = topic.partitions
    assert [offset for offset, _ in values_in(first)] == [0, 1, 2, 3, 4, 5]
    assert (first.high_watermark, first.last_stable_offset, first.aborted_transactions) == (6, 6, None)
    assert (second.high_watermark, len(second.records)) == (0, 0)  # type: ignore[arg-type]  # bytes
    if version >= 5:
        assert first.log_start_offset == 0
    assert first.preferred_read_replica == -1


@pytest.mark.trap
def test_an_offset_within_a_batch_returns_the_whole_batch() -> None:
    """Trap 5: A fetch offset in the middle of a batch returns the whole batch."""
    world = world_with_records()
    found = partition_answers(ask(world, 12, {0: 3}))["orders", 0]
    assert [batch.base_offset for batch in batches_in(found)] == [2, 4]


# KIP-74
@pytest.mark.trap
def test_a_first_batch_larger_than_the_limits_is_returned_all_the_same() -> None:
    """Trap 6: First batch larger than max.bytes is returned all the same (progress guarantee)."""
    world = world_with_records()
    assert sizes(ask(world, 12, {1: 0, 0: 0}, max_bytes=10)) == {1: LARGE, 0: 0}
    assert sizes(ask(world, 12, {1: 0, 0: 0}, partition_max_bytes=10)) == {1: LARGE, 0: 0}
    assert sizes(ask(world, 12, {2: 0, 1: 0, 0: 0}, max_bytes=0)) == {2: 0, 1: LARGE, 0: 0}


def test_later_partitions_share_the_remaining_limit() -> None:
    world = world_with_records()
    assert sizes(ask(world, 12, {0: 0, 1: 0}, max_bytes=3 * BATCH + LARGE)) == {0: 3 * BATCH, 1: LARGE}
    assert sizes(ask(world, 12, {0: 0, 1: 0}, max_bytes=3 * BATCH + LARGE + 5)) == {
        0: 3 * BATCH,
        1: LARGE + 5,
    }
    # The second partition's first batch does not fit, and only the first partition may ignore that.
    assert sizes(ask(world, 12, {0: 0, 1: 0}, max_bytes=3 * BATCH + 5)) == {0: 3 * BATCH, 1: 0}
    assert sizes(ask(world, 12, {0: 0, 1: 0}, partition_max_bytes=BATCH)) == {0: BATCH, 1: 0}


def test_the_brokers_own_limit_counts_too() -> None:
    world = World(options={"fetch.max.bytes": "1024"})
    world.topic("orders", 2)
    for index in (0, 1):
        world.produce("orders", batch_of(b"c" * 1000), batch_of(b"c" * 1000), index=index)
    assert sizes(ask(world, 12, {0: 0, 1: 0})) == {0: LARGE, 1: 0}


def test_negative_limits_and_unknown_isolation() -> None:
    world = world_with_records()
    below = fetch_request("orders", {0: 0})
    below.topics[0].partitions[0].partition_max_bytes = -1
    assert codes(partition_answers(world.fetch(below, 12)).values()) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    with pytest.raises(KafkaError, match="unknown isolation level 2"):
        ask(world, 12, {0: 0}, isolation_level=2)


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_of_single_partitions(version: int) -> None:
    world = world_with_records()
    found = partition_answers(ask(world, version, {0: 99, 1: -1, 9: 0, 2: 0}))
    assert {key[1]: ErrorCode(one.error_code) for key, one in found.items()} == {
        0: ErrorCode.OFFSET_OUT_OF_RANGE,
        1: ErrorCode.OFFSET_OUT_OF_RANGE,
        2: ErrorCode.NONE,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    for index in (0, 9):
        one = next(one for key, one in found.items() if key[1] == index)
        assert (one.high_watermark, one.last_stable_offset, one.log_start_offset) == (-1, -1, -1)
        assert one.aborted_transactions == ([] if index == 9 else None)
    request = by_version(world, fetch_request("nothing", {0: 0}), version)
    expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(partition_answers(world.fetch(request, version)).values()) == [expected]


def test_records_before_the_log_start_are_out_of_range() -> None:
    world = world_with_records()
    world.replicas.delete_records(world.replicas.find("orders", 0), 2)
    found = partition_answers(ask(world, 12, {0: 1}))["orders", 0]
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    found = partition_answers(ask(world, 12, {0: 2}))["orders", 0]
    assert (found.error_code, found.log_start_offset) == (0, 2)


def test_consumers_do_not_read_beyond_the_high_watermark() -> None:
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1, 2])
    world.produce("orders", batch_of(b"a"), batch_of(b"b"))
    found = partition_answers(ask(world, 12, {0: 0}))["orders", 0]
    assert (found.error_code, found.high_watermark, values_in(found)) == (0, 0, [])
    found = partition_answers(ask(world, 12, {0: 1}))["orders", 0]  # beyond it, but within the log
    assert (found.error_code, values_in(found)) == (0, [])


def test_unauthorized_topics_are_refused() -> None:
    world = world_with_records()
    world.authorizer = Forbid(
        (Operation.READ, Resource.TOPIC, "orders"), (Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
    )
    for fields in ({}, {"replica_id": 2}):
        found = partition_answers(ask(world, 12, {0: 0}, **fields))
        assert codes(found.values()) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


# Epochs (KIP-320, KIP-595)


def test_leader_epochs_are_checked() -> None:
    # cluster.md 3
    world = world_with_records()
    world.partition_change("orders", leader=1)  # epoch 1
    request = fetch_request("orders", {0: 0})
    for epoch, code in (
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.NONE),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        request.topics[0].partitions[0].current_leader_epoch = epoch
        assert codes(partition_answers(world.fetch(request, 12)).values()) == [code]


def test_divergence_by_the_last_fetched_epoch() -> None:
    world = world_with_records()
    world.partition_change("orders", leader=1)
    world.produce("orders", batch_of(b"new"))
    request = fetch_request("orders", {0: 6}, max_wait_ms=1000)
    partition = request.topics[0].partitions[0]
    for last_epoch, offset, diverging in ((0, 6, None), (1, 7, None), (0, 9, (0, 6))):
        partition.last_fetched_epoch, partition.fetch_offset = last_epoch, offset
        answer = world.fetch(request, 12)
        if offset == 7:
            world.tick(1000)
            answer = result_of(answer, 12)
        found = partition_answers(answer)["orders", 0]
        epoch = found.diverging_epoch
        assert (epoch.epoch, epoch.end_offset) == (diverging or (-1, -1))
        assert bool(values_in(found)) is (offset == 6)
    partition.last_fetched_epoch = 9
    assert codes(partition_answers(world.fetch(request, 12)).values()) == [ErrorCode.OFFSET_OUT_OF_RANGE]


# KIP-951
def test_the_wrong_broker_returns_the_current_leader() -> None:
    world = World()
    world.topic("orders", replicas=[2, 3], leader=3)
    response = ask(world, 16, {0: 0})
    found = response.responses[0].partitions[0]
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (3, 0)
    assert [(one.node_id, one.host, one.port) for one in response.node_endpoints] == [(3, "host3", 9003)]
    assert ask(world, 15, {0: 0}).node_endpoints == []


def test_the_id_of_a_deleted_topic_is_unknown() -> None:
    world = world_with_records()
    hosted = world.replicas.find("orders", 0)
    hosted.topic_id = Uuid(bytes(15) + b"\x55")
    found = ask(world, 13, {0: 0}).responses[0].partitions[0]
    assert found.error_code == ErrorCode.INCONSISTENT_TOPIC_ID


# Long polls


def test_a_fetch_waits_for_min_bytes_and_completes_at_the_end_of_the_tick() -> None:
    world = world_with_records()
    waiting = ask(world, 12, {0: 6, 2: 0}, max_wait_ms=1000, min_bytes=2 * BATCH)
    batch = batch_of(b"a" * 100, b"b" * 100)
    world.produce("orders", batch, index=2)
    world.tick()
    assert not waiting.done  # type: ignore[attr-defined]  # a Promise
    world.produce("orders", batch)
    assert not waiting.done  # type: ignore[attr-defined]  # a Promise
    world.tick()
    assert sizes(result_of(waiting, 12)) == {0: BATCH, 2: BATCH}
    assert len(world.replicas.purgatory) == world.replicas.purgatory.watched_keys == 0


def test_an_expired_fetch_returns_the_available_records() -> None:
    world = world_with_records()
    waiting = ask(world, 12, {0: 4, 2: 0}, max_wait_ms=500, min_bytes=10 * BATCH)
    world.tick(499)
    assert not waiting.done  # type: ignore[attr-defined]  # a Promise
    world.tick(1)
    assert sizes(result_of(waiting, 12)) == {0: BATCH, 2: 0}


def test_no_wait_no_data_or_an_error_completes_at_once() -> None:
    world = world_with_records()
    assert sizes(ask(world, 12, {0: 6}, max_wait_ms=0)) == {0: 0}
    assert sizes(ask(world, 12, {0: 6}, max_wait_ms=1000, min_bytes=0)) == {0: 0}
    assert codes(partition_answers(ask(world, 12, {0: 6, 9: 0}, max_wait_ms=0)).values()) == [0, 3]


def test_an_error_is_not_waited_with() -> None:
    world = world_with_records()
    response = ask(world, 12, {0: 99, 1: 3}, max_wait_ms=1000)
    assert codes(partition_answers(response).values()) == [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NONE]


def test_bytes_of_closed_segments_are_not_waited_with() -> None:
    """A read ends at its segment's end: a request for more bytes must not wait."""
    world = world_with_records()
    world.log("orders").roll()
    world.produce("orders", batch_of(b"new"))
    assert sizes(ask(world, 12, {0: 0}, max_wait_ms=1000, min_bytes=100 * BATCH)) == {0: 3 * BATCH}


def test_the_fetch_of_a_disconnected_client_is_dropped() -> None:
    world = world_with_records()
    context = world.context(1, 12)
    fetch.handle(world, fetch_request("orders", {0: 6}, max_wait_ms=1000), context)  # type: ignore[arg-type]  # the test's broker
    assert len(world.replicas.purgatory) == 1
    assert context.on_disconnect is not None
    context.on_disconnect()
    assert len(world.replicas.purgatory) == 0


def test_consumers_of_a_replicated_partition_wait_for_the_high_watermark() -> None:
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1, 2])
    waiting = ask(world, 12, {0: 0}, max_wait_ms=1000)
    world.produce("orders", batch_of(b"a"))
    world.tick()
    assert not waiting.done  # type: ignore[attr-defined]  # a Promise
    hosted = world.replicas.find("orders", 0)
    request = fetch_request("orders", {0: 1}, replica_id=2)
    world.fetch(request, 12)
    world.tick()
    assert hosted.log is not None
    assert values_in(partition_answers(result_of(waiting, 12))["orders", 0]) == [(0, b"a")]


def test_a_followers_long_poll_is_woken_by_an_append() -> None:
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1, 2])
    waiting = ask(world, 12, {0: 0}, max_wait_ms=1000, replica_id=2)
    world.produce("orders", batch_of(b"a"))
    world.tick()
    assert values_in(partition_answers(result_of(waiting, 12))["orders", 0]) == [(0, b"a")]


# Sessions (KIP-227)


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_a_session_returns_only_changes(version: int) -> None:
    world = world_with_records()
    first = ask(world, version, {0: 0, 1: 0, 2: 0}, session_epoch=0)
    assert first.session_id != 0
    assert sum(len(topic.partitions) for topic in first.responses) == 3

    def go_on(epoch: int, offsets: dict[int, int], forget: tuple[int, ...] = ()) -> FetchResponse:
        request = fetch_request("orders", offsets, session_id=first.session_id, session_epoch=epoch)
        if not offsets:
            request.topics = []
        if forget:
            request.forgotten_topics_data = [
                FetchRequest.ForgottenTopic(topic="orders", partitions=list(forget))
            ]
        response: FetchResponse = world.fetch(by_version(world, request, version), version)
        return response

    assert go_on(1, {0: 6, 1: 3}).responses == []
    world.produce("orders", batch_of(b"new"), index=2)
    found = go_on(2, {})
    assert found.session_id == first.session_id
    assert [one.partition_index for topic in found.responses for one in topic.partitions] == [2]
    found = go_on(3, {9: 0, 2: 1})
    assert codes(found.responses[0].partitions) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert go_on(4, {}, forget=(9,)).responses == []
    assert go_on(77, {}).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert go_on(5, {}, forget=(0, 1, 2)).session_id == 0
    assert go_on(6, {}).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_sessions_give_every_partition_its_turn() -> None:
    """Partitions that returned records are read last next time: a small limit starves no partition."""
    world = world_with_records()
    world.produce("orders", batch_of(b"d" * 1000), index=2)
    session_id = ask(world, 12, {0: 0, 1: 0, 2: 0}, session_epoch=0, max_bytes=BATCH).session_id
    served = []
    for epoch in (1, 2, 3):
        request = fetch_request("orders", {}, session_id=session_id, session_epoch=epoch, max_bytes=10)
        request.topics = []
        served += [index for index, size in sizes(world.fetch(request, 12)).items() if size]
    assert served == [0, 1, 2]


def test_no_session_is_created_when_the_cache_is_full() -> None:
    world = World(options={"max.incremental.fetch.session.cache.slots": "0"})
    world.topic("orders")
    assert ask(world, 12, {0: 0}, session_epoch=0).session_id == 0


# Isolation


def with_transactions() -> World:
    """Offsets 0 plain, 1 aborted, 2 its marker, 3 open, 4 plain."""
    world = World()
    world.topic("orders")
    log = world.log("orders")

    def append(sequence: int) -> None:
        batch = batch_of(b"t", producer_id=5, producer_epoch=0, base_sequence=sequence, transactional=True)
        log.append_as_leader(batch, 0, verification=log.start_verification(5, sequence, 0))

    world.produce("orders", batch_of(b"a"))
    append(0)
    marker = build_marker(
        EndTransactionMarker(commit=False, coordinator_epoch=0), producer_id=5, producer_epoch=0, timestamp=T0
    )
    log.append_as_leader(marker, 0, origin=AppendOrigin.COORDINATOR)
    append(1)
    world.produce("orders", batch_of(b"b"))
    return world


def test_read_committed_stops_at_the_first_open_transaction_and_lists_aborted_ones() -> None:
    world = with_transactions()
    found = partition_answers(ask(world, 12, {0: 0}, isolation_level=1))["orders", 0]
    assert (found.high_watermark, found.last_stable_offset) == (5, 3)
    assert [batch.base_offset for batch in batches_in(found)] == [0, 1, 2]
    aborted = found.aborted_transactions or []
    assert [(one.producer_id, one.first_offset) for one in aborted] == [(5, 1)]
    found = partition_answers(ask(world, 12, {0: 0}))["orders", 0]
    assert [batch.base_offset for batch in batches_in(found)] == [0, 1, 2, 3, 4]
    assert found.aborted_transactions is None


def test_a_read_committed_reader_is_woken_when_the_transaction_ends() -> None:
    world = with_transactions()
    waiting = ask(world, 12, {0: 3}, isolation_level=1, max_wait_ms=1000)
    hosted = world.replicas.find("orders", 0)
    marker = build_marker(
        EndTransactionMarker(commit=True, coordinator_epoch=0), producer_id=5, producer_epoch=0, timestamp=T0
    )
    log = world.log("orders")
    log.append_as_leader(marker, 0, origin=AppendOrigin.COORDINATOR)
    hosted.advance(0)
    world.replicas.purgatory.changed(hosted)
    world.tick()
    found = partition_answers(result_of(waiting, 12))["orders", 0]
    assert [batch.base_offset for batch in batches_in(found)] == [3, 4, 5]


# Slices


def test_records_leave_as_slices_of_the_file() -> None:
    world = World(disk=MemoryDisk())
    world.topic("orders")
    world.produce("orders", batch_of(b"a"))
    response: Any = fetch.handle(world, fetch_request("orders", {0: 0}), world.context(1, 12))  # type: ignore[arg-type]  # the test's broker
    records = response.responses[0].partitions[0].records
    assert not isinstance(records, bytes)
    assert records.read()[61:] == bytes(batch_of(b"a"))[61:]
    pieces = response.encode_pieces(12)
    assert any(piece is records for piece in pieces)


def test_a_request_that_fails_as_a_whole_has_the_error_in_every_partition() -> None:
    request = fetch_request("orders", {0: 0, 1: 0}, session_id=7)
    response = fetch.refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, "no")
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert codes(partition_answers(response).values()) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2


def restarted_and_cold(monkeypatch: pytest.MonkeyPatch) -> tuple[World, list[int]]:
    """Records from before a restart, none of them in the page cache; the ranges that were read."""
    world = world_with_records()
    world.log("orders").roll()
    world.produce("orders", batch_of(b"new"))
    world.stop()
    again = World(disk=world.disk, start=False)
    again.image = world.image
    again.start()
    again.work()
    read: list[int] = []
    kind = type(again.log("orders").active.slice(0, 1))
    monkeypatch.setattr(kind, "is_resident", lambda part: bool(read))
    monkeypatch.setattr(kind, "bring_in", lambda part: read.append(part.length))
    return again, read


def test_cold_data_is_read_by_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records from before a restart are read by a worker; the event loop does not wait."""
    world, read = restarted_and_cold(monkeypatch)
    waiting = ask(world, 12, {0: 0, 2: 0})
    world.tick()
    assert not waiting.done  # type: ignore[attr-defined]  # a Promise
    assert read == []
    world.workers.run()
    assert read == [3 * BATCH]
    assert sizes(result_of(waiting, 12)) == {0: 3 * BATCH, 2: 0}
    assert sizes(ask(world, 12, {0: 0})) == {0: 3 * BATCH}  # in memory by now


def test_a_cold_read_below_min_bytes_keeps_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for bytes in the next segment, but for a partition without more."""
    world, _ = restarted_and_cold(monkeypatch)
    world.log("orders").active.records.valid_from = 10**9
    waiting = ask(world, 12, {0: 6}, max_wait_ms=500, min_bytes=10 * BATCH)
    world.workers.run()
    world.tick(499)
    assert not waiting.done  # type: ignore[attr-defined]  # a Promise
    world.tick(1)
    assert sizes(result_of(waiting, 12)) == {0: len(batch_of(b"new"))}
