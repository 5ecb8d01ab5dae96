"""The time of a cluster: what happens when a test moves it on."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from barnabas.testing import Cluster, KitError, WaitTimeoutError, wait_for

TIMEOUT_S = 60.0
DAY_MS = 86_400_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(1, options={"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


def test_retention_goes_by_the_cluster_time(cluster: Cluster) -> None:
    topic = cluster.topic("orders", configs={"retention.ms": 7 * DAY_MS})
    topic.send("old")
    cluster.clock.advance(days=6)
    cluster.run_retention()
    assert len(topic.all_records()) == 1
    cluster.clock.advance(days=2)
    cluster.run_retention()
    assert topic.all_records() == []


def test_append_times_are_those_of_the_cluster(cluster: Cluster) -> None:
    topic = cluster.topic("orders", configs={"message.timestamp.type": "LogAppendTime"})
    before_ms = cluster.clock.now_ms
    cluster.clock.advance(days=8)
    topic.send("new")
    assert topic.records(1, timeout=TIMEOUT_S)[0].timestamp - before_ms >= 8 * DAY_MS
    assert cluster.clock.now.timestamp() > time.time() + 7 * DAY_MS / 1000


def test_timers_fire_and_live_members_stay(cluster: Cluster) -> None:
    topic = cluster.topic("orders")
    topic.send("a")
    group = cluster.group("app")
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group.id,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic.name])
    try:
        assert consumer.poll(TIMEOUT_S) is not None
        group.wait_assigned(timeout=TIMEOUT_S)
        members = set(group.assignment)
        # Ten times its session.
        cluster.clock.advance(seconds=450, timers=True)
        assert set(group.assignment) == members and group.state == "Stable"
        topic.send("b")
        message = consumer.poll(TIMEOUT_S)
        assert message is not None and message.value() == b"b"
    finally:
        consumer.close()


def test_a_member_without_a_connection_expires(cluster: Cluster) -> None:
    from barnabas.client.sync import Consumer as OurConsumer

    topic = cluster.topic("orders")
    consumer = OurConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id="app", client_id="crashed")
    consumer.subscribe([topic.name])
    group = cluster.group("app")
    wait_for(lambda: consumer.poll(timeout_ms=50) is not None and group.assignment, TIMEOUT_S)
    with cluster.faults.add("LeaveGroup", drop="before", group="app"):
        consumer.close(timeout_ms=100)
    assert len(group.assignment) == 1
    cluster.clock.advance(seconds=60, timers=True)
    assert group.assignment == {} and group.state == "Empty"


def test_an_open_transaction_times_out(cluster: Cluster) -> None:
    topic = cluster.topic("orders")
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": "t",
            "transaction.timeout.ms": 60_000,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic.name, b"late")
    assert producer.flush(TIMEOUT_S) == 0
    cluster.clock.advance(minutes=3, timers=True)
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT_S)
    assert topic.all_records(committed=True) == []


def test_time_does_not_go_back_nor_on_for_ever(cluster: Cluster) -> None:
    for days in (0, -1):
        with pytest.raises(KitError, match="time moves on only"):
            cluster.clock.advance(days=days)
    with pytest.raises(KitError, match="8 days, 0:00:00 with timers is more than max=3600 seconds"):
        cluster.clock.advance(days=8, timers=True)


def test_three_brokers_stay_alive_for_an_hour() -> None:
    with Cluster(3) as cluster:
        topic = cluster.topic("orders")
        leader, isr = cluster.leader(topic.name), cluster.isr(topic.name)
        cluster.clock.advance(minutes=10, timers=True)
        assert (cluster.leader(topic.name), cluster.isr(topic.name)) == (leader, isr)
        topic.send("still here")
        # A broker that says nothing for so long is fenced.
        with cluster.pause(leader):
            cluster.clock.advance(seconds=30, timers=True)
            assert cluster.leader(topic.name) != leader


def test_a_disk_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from barnabas.testing.kit import clock

    monkeypatch.setattr(clock, "MAX_WORKER_TURNS", 10)
    with Cluster(1) as cluster:
        node = cluster.running.node(1)
        cluster.running.call(lambda: setattr(node._workers, "pending", node._workers.pending + 1))
        with pytest.raises(KitError, match="time does not go on: node 1 waits for its disk"):
            cluster.clock.advance(seconds=10, timers=True)


def test_a_test_that_freezes_its_own_time_does_not_stop_the_cluster(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As freezegun does it: the functions of the module time are others meanwhile."""
    topic = cluster.topic("frozen")
    with monkeypatch.context() as patch:
        for name in ("time", "monotonic", "perf_counter"):
            patch.setattr(time, name, lambda: 1_577_836_800.0)
            patch.setattr(time, f"{name}_ns", lambda: 1_577_836_800_000_000_000)
        topic.send("a", timestamp=1_700_000_000_000)
        assert [record.value for record in topic.records(1)] == [b"a"]
        with pytest.raises(WaitTimeoutError, match="has 1 of 2 records"):
            topic.records(2, timeout=0.2)
        with pytest.raises(WaitTimeoutError):
            wait_for(lambda: False, 0.05)
        assert cluster.clock.now.year > 2020
    # Timers that were set meanwhile are due at their time.
    with cluster.faults.add("Produce", delay=0.05, times=1):
        topic.send("b")
