"""A broker's fetchers: which partition has which, and what responses lead to."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.replication import replica_fetcher
from barnabas.broker.replication.fetcher_manager import fetcher_number
from barnabas.broker.replication.replication_metrics import add_replication_metrics
from barnabas.config.node.node import read_node
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.replica.fetching.fetcher import Fetcher
from barnabas.runtime.network.network import Address
from barnabas.storage.failure import StorageFailure
from barnabas.storage.log.log import Log
from tests.broker.replication.follower_world import FollowerWorld
from tests.broker.replication.test_truncations import leader_content
from tests.broker.worlds.data_world import T0, config, fetch_request, partition_answers, register
from tests.replica.fetching.world import answer, response_of


@pytest.mark.parametrize(
    ("topic", "index", "expected"),
    # Java's hash codes of these are 97, 99162322 and -2147483648.
    [("a", 0, 7), ("hello", 1, 1), ("polygenelubricants", 0, 0), ("", 3, 3)],
)
def test_a_partition_has_apache_kafkas_fetcher(topic: str, index: int, expected: int) -> None:
    assert fetcher_number(topic, index, 8) == expected
    assert fetcher_number(topic, index, 1) == 0


def test_a_follower_fetches_from_its_leader() -> None:
    world = FollowerWorld()
    topic_id = world.followed()
    (sent,) = world.connection.sent
    assert world.connection.client_id == "broker-1-fetcher-0"
    assert sent[0] == Address("host2", 9002)
    request = world.request()
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, world.broker_epoch)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 10_485_760)
    content = leader_content(3, 2)
    world.respond(topic_id, content, high_watermark=3)
    assert (world.log().end_offset, world.log().high_watermark) == (5, 3)
    assert world.request().topics[0].partitions[0].fetch_offset == 5
    assert world.fetchers.max_lag == 0
    assert world.effects.bytes_in == len(content)


def test_a_leader_is_not_fetched() -> None:
    world = FollowerWorld()
    world.topic("led")
    world.settle()
    assert world.connections == []
    world.followed()
    connection = world.connection
    world.partition_change("orders", leader=1)
    world.settle()
    assert connection.is_closed
    assert world.fetchers.fetchers == {}
    assert len(world.fetchers) == 0


def test_without_a_leader_nothing_is_fetched() -> None:
    world = FollowerWorld()
    world.followed(leader=-1)
    assert world.connections == []
    world.partition_change("orders", leader=3)
    world.settle()
    assert list(world.fetchers.fetchers) == [(3, 0)]


def test_another_leader_has_another_fetcher() -> None:
    world = FollowerWorld()
    world.followed()
    before = world.connection
    world.partition_change("orders", leader=3)
    world.settle()
    assert before.is_closed
    assert world.connection.sent[0][0] == Address("host3", 9003)
    # What the old leader still sends is ignored.
    before.respond(None, OSError("closed"))
    assert len(world.connection.sent) == 1


def test_one_fetcher_serves_all_partitions_of_a_leader() -> None:
    world = FollowerWorld()
    topic_id = world.topic("orders", 3, replicas=(1, 2, 3), leader=2)
    world.settle()
    (topic,) = world.request().topics
    assert [one.partition for one in topic.partitions] == [0, 1, 2]
    assert topic.topic_id == topic_id


def test_the_number_of_fetchers_can_change() -> None:
    world = FollowerWorld()
    world.topic("orders", 4, replicas=(1, 2, 3), leader=2)
    world.settle()
    assert set(world.fetchers.fetchers) == {(2, 0)}
    world.settings = read_node({**world.settings.given, "num.replica.fetchers": "2"}).settings
    world.fetchers.configure(lambda: list(world.replicas.partitions.values()))
    world.settle()
    assert set(world.fetchers.fetchers) == {(2, 0), (2, 1)}
    assert [len(one.fetcher) for one in world.fetchers.fetchers.values()] == [2, 2]


def test_a_leader_that_does_not_respond_is_tried_again() -> None:
    world = FollowerWorld()
    topic_id = world.followed()
    for _ in range(3):
        world.connection.respond(None, OSError("connection refused"))
        assert world.connection.sent == []
        world.tick(1_000)
    world.respond(topic_id, leader_content(2))
    assert world.log().end_offset == 2


def test_a_leader_that_is_not_registered_is_waited_for() -> None:
    world = FollowerWorld()
    world.topic("orders", replicas=(1, 7), leader=7)
    world.settle()
    assert world.connection.sent == []
    world.change(register(7))
    world.tick(1_000)
    assert world.connection.sent[0][0] == Address("host7", 9007)


def test_a_long_response_is_processed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is copied: the receive buffer is used again."""
    monkeypatch.setattr(replica_fetcher, "SLICE_NS", 0)
    world = FollowerWorld()
    topic_id = world.topic("orders", 2, replicas=(1, 2, 3), leader=2)
    world.settle()
    buffer = bytearray(leader_content(2, 3))
    data = [answer(index, records=memoryview(buffer)) for index in range(2)]  # type: ignore[arg-type]
    world.connection.respond(response_of(*data, session_id=5, topic_id=topic_id))
    buffer[:] = bytes(len(buffer))
    assert (world.log(index=0).end_offset, world.log(index=1).end_offset) == (5, 0)
    assert world.connection.sent == []
    world.tick(1)
    assert world.log(index=1).end_offset == 5
    assert len(world.connection.sent) == 1


def test_a_failed_directory_takes_its_partitions_out_of_the_fetchers(monkeypatch: pytest.MonkeyPatch) -> None:
    world = FollowerWorld()
    topic_id = world.followed()

    def fail(self: Log, *_: object) -> None:
        raise StorageFailure(self.folder, "appending", OSError(errno.EIO, "broken"))

    monkeypatch.setattr(Log, "append_as_follower", fail)
    world.respond(topic_id, leader_content(2))
    assert world.failed_dirs == ["/data"]
    assert world.fetchers.fetchers == {}
    assert world.hosted().is_offline


def test_a_fault_in_one_partition_is_logged_and_retried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = FollowerWorld()
    topic_id = world.followed()

    def fail(self: Log, *_: object) -> Any:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(Log, "append_as_follower", fail)
        world.respond(topic_id, leader_content(2))
    assert "could not be processed" in caplog.text
    world.connection.respond(None, OSError("closed"))
    world.tick(1_000)
    world.respond(topic_id, leader_content(2))
    assert world.log().end_offset == 2


def test_with_flush_messages_the_next_fetch_waits_for_the_flush() -> None:
    world = FollowerWorld()
    topic_id = world.followed(flush_messages="1")
    world.respond(topic_id, leader_content(2))
    assert world.request().topics == []
    world.connection.respond(None, OSError("closed"))
    world.settle()
    world.tick(1_000)
    assert world.log().recovery_point == 2
    assert world.request().topics[0].partitions[0].fetch_offset == 2


def test_an_offset_out_of_range_is_looked_up() -> None:
    """cluster.md 9, through the driver."""
    world = FollowerWorld()
    topic_id = world.followed()
    world.respond(topic_id, error=ErrorCode.OFFSET_OUT_OF_RANGE)
    for offset in (30, 20):
        request = world.connection.request()
        assert isinstance(request, ListOffsetsRequest)
        partition = ListOffsetsResponse.PartitionResponse(partition_index=0, error_code=0, offset=offset)
        topic = ListOffsetsResponse.TopicResponse(name="orders", partitions=[partition])
        world.connection.respond(ListOffsetsResponse(topics=[topic]))
    world.settle()
    assert (world.log().log_start_offset, world.log().end_offset) == (20, 20)


def test_consumers_read_from_a_follower_up_to_its_high_watermark() -> None:
    """KIP-392: a consumer that waits at a follower gets the records when the follower learns of the HW."""
    world = FollowerWorld()
    topic_id = world.followed()
    promise = world.fetch(fetch_request("orders", {0: 0}, max_wait_ms=500))
    assert not promise.done
    content = leader_content(3)
    world.respond(topic_id, content)
    assert not promise.done
    world.respond(topic_id, high_watermark=3)
    assert promise.done
    found: list[Any] = []
    promise.then(found.append, lambda error: None)
    data = partition_answers(found[0])["orders", 0]
    assert (data.error_code, data.high_watermark) == (0, 3)


def test_the_options_of_a_followed_topic_can_change() -> None:
    world = FollowerWorld()
    world.followed()
    world.change(config("orders", "flush.messages", "1"))
    world.settle()
    assert world.hosted().flush_messages == 1


def test_a_stopped_broker_fetches_nothing() -> None:
    world = FollowerWorld()
    world.followed()
    connection, hosted = world.connection, world.hosted()
    world.stop()
    assert connection.is_closed
    world.fetchers.follow(hosted)
    assert world.fetchers.fetchers == {}


def test_the_first_gap_of_a_compacted_log_is_noted_by_a_worker() -> None:
    """No sync happens on the loop; a crash afterwards does not take the gap for lost records."""
    world = FollowerWorld()
    topic_id = world.followed(cleanup_policy="compact")
    content = leader_content(1, 1) + bytes(build([Record(7, T0, b"k", b"v")], leader_epoch=0))
    world.respond(topic_id, content)
    assert world.log().end_offset == 0
    world.settle()
    assert b"orders 0" in world.disk.read_bytes("/data/gap-offset-checkpoint")
    world.connection.respond(None, OSError("closed"))
    world.tick(1_000)
    world.respond(topic_id, content)
    assert world.log().end_offset == 8


def test_operators_see_replication_in_the_metrics() -> None:
    world = FollowerWorld()
    metrics = Metrics()
    add_replication_metrics(metrics, world.replicas, world.fetchers, world.effects)
    topic_id = world.followed()
    world.topic("led", replicas=(1, 2), isr=(1,), min_insync_replicas="2")
    world.settle()
    content = leader_content(3)
    world.respond(topic_id, content, high_watermark=9)
    lines = dict(line.split(" ") for line in metrics.text().splitlines() if not line.startswith("#"))
    assert {name.removeprefix("barnabas_"): value for name, value in lines.items() if value != "0"} == {
        "leader_partitions": "1",
        "under_replicated_partitions": "1",
        "under_min_isr_partitions": "1",
        "followed_partitions": "1",
        "replica_fetchers": "1",
        "replica_max_lag": "6",
        "replication_bytes_in_total": str(len(content)),
    }


def test_a_response_that_cannot_be_understood_does_not_end_the_fetching(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = FollowerWorld()
    topic_id = world.followed()

    def fail(*_: object) -> Any:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(Fetcher, "received", fail)
        world.respond(topic_id)
    assert "a response could not be processed" in caplog.text
    world.tick(1_000)
    world.respond(topic_id, leader_content(2))
    assert world.log().end_offset == 2


def test_a_partition_that_is_led_here_is_not_followed() -> None:
    """A transition that is older than what the leader has agreed with the controller changes nothing."""
    world = FollowerWorld()
    world.topic("led", replicas=(1, 2))
    world.settle()
    world.fetchers.follow(world.hosted("led"))
    assert world.connections == []
