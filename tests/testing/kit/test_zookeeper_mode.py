"""Clusters of the kit in ZooKeeper mode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.testing import Cluster, KitError, wait_for

TIMEOUT_S = 60.0
SESSION_MS = 1_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    options = {"zookeeper.session.timeout.ms": SESSION_MS}
    with Cluster(3, mode="zookeeper", options=options) as running:
        yield running


def write(cluster: Cluster, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0


def is_whole(cluster: Cluster, topic: str) -> bool:
    return len(cluster.isr(topic)) == 3


def test_records_are_written_and_read_in_a_group(cluster: Cluster) -> None:
    topic = cluster.topic("orders", partitions=3)
    write(cluster, "orders", b"1")
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    message = consumer.poll(TIMEOUT_S)
    assert message is not None and message.value() == b"1"
    consumer.commit(asynchronous=False)
    cluster.group("billing").wait_caught_up()
    consumer.close()
    assert topic.records(1)[0].value == b"1"
    assert cluster.controller in cluster.brokers


def test_a_leader_that_is_killed_is_replaced(cluster: Cluster) -> None:
    topic = cluster.topic("killed")
    killed = cluster.leader("killed")
    with cluster.kill(killed).wait_election():
        assert cluster.leader("killed") != killed
        write(cluster, "killed", b"1")
    wait_for(lambda: is_whole(cluster, "killed"), TIMEOUT_S)
    assert topic.records(1)[0].value == b"1"


def test_a_controller_that_is_killed_is_replaced(cluster: Cluster) -> None:
    killed = cluster.controller
    with cluster.kill(killed):
        assert cluster.controller != killed
        cluster.topic("of-another-controller", replication_factor=1)
    wait_for(lambda: all(cluster.running.node(each).is_up for each in cluster.brokers))


def test_a_controller_that_zookeeper_hears_nothing_of_is_replaced(cluster: Cluster) -> None:
    silent = cluster.controller
    with cluster.faults.partition(silent, "zookeeper"):
        assert cluster.interventions() == [f"node {silent} is cut off from zookeeper"]
        # Its session ends; it does not know.
        wait_for(lambda: cluster.controller != silent, TIMEOUT_S)
    topic = cluster.topic("whole-again")
    wait_for(lambda: is_whole(cluster, "whole-again"), TIMEOUT_S)
    write(cluster, topic.name, b"1")


def test_a_broker_that_is_paused_comes_back_in_a_new_session(cluster: Cluster) -> None:
    cluster.topic("paused")
    paused = next(each for each in cluster.brokers if each != cluster.controller)
    with cluster.pause(paused).wait_election(TIMEOUT_S):
        write(cluster, "paused", b"1")
    wait_for(lambda: is_whole(cluster, "paused"), TIMEOUT_S)


def test_a_broker_that_is_stopped_hands_over_first(cluster: Cluster) -> None:
    cluster.topic("stopped")
    stopped = cluster.leader("stopped")
    with cluster.shut_down(stopped):
        assert cluster.leader("stopped") != stopped
        write(cluster, "stopped", b"1")
    wait_for(lambda: is_whole(cluster, "stopped"), TIMEOUT_S)


def test_errors_strike_requests_as_in_the_other_mode(cluster: Cluster) -> None:
    cluster.topic("struck")
    with cluster.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", topic="struck", times=1) as fault:
        write(cluster, "struck", b"1")
    assert fault.hits == 1


def test_a_snapshot_holds_the_znodes_too() -> None:
    with Cluster(3, mode="zookeeper") as cluster:
        topic = cluster.topic("kept")
        topic.send("kept")
        snapshot = cluster.snapshot()
        for _ in range(2):
            cluster.topic("lost").send("lost")
            cluster.delete_topics(["kept"])
            cluster.restore(snapshot)
            assert cluster.topic_names() == {"kept"}
            assert [record.value for record in topic.all_records()] == [b"kept"]


def test_time_moves_with_its_sessions() -> None:
    with Cluster(mode="zookeeper") as cluster:
        topic = cluster.topic("orders", configs={"retention.ms": 1_000})
        topic.send("old")
        cluster.clock.advance(minutes=10, timers=True)
        cluster.run_retention()
        assert topic.all_records() == []
        cluster.topic("another").send("new")


def test_what_a_mode_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match='"kraft" or "zookeeper"'):
        Cluster(mode="zk")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="leave out controllers"):
        Cluster(3, mode="zookeeper", controllers=3)
    with Cluster() as cluster, pytest.raises(KitError, match="no ZooKeeper"):
        cluster.faults.partition(1, "zookeeper")
