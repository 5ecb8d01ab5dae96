"""A consumer group of another client, as the kit sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from barnabas.testing import Cluster, WaitTimeoutError
from barnabas.testing.kit.topics.topics import Topic

TIMEOUT_S = 120.0
SHORT_S = 0.05


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as running:
        yield running


@contextmanager
def consumer_of(cluster: Cluster, group: str, topic: Topic, **options: object) -> Iterator[Consumer]:
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **options,
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic.name])
    try:
        yield consumer
    finally:
        consumer.close()


def read(consumer: Consumer, count: int) -> None:
    for _ in range(count):
        message = consumer.poll(TIMEOUT_S)
        assert message is not None and message.error() is None


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_has_its_partitions_and_catches_up(cluster: Cluster, protocol: str) -> None:
    topic = cluster.topic(f"caught-up-{protocol}", partitions=2)
    for number in range(4):
        topic.send(number, partition=number % 2)
    group = cluster.group(f"group-{protocol}")
    with consumer_of(cluster, group.id, topic, **{"group.protocol": protocol}) as consumer:
        read(consumer, 4)
        group.wait_assigned(topic, members=1, timeout=TIMEOUT_S)
        assert [len(places) for places in group.assignment.values()] == [2]
        assert group.is_settled() and group.state == "Stable"
        assert group.lag(topic) == 4
        consumer.commit(asynchronous=False)
        group.wait_caught_up(timeout=TIMEOUT_S)
        assert sum(group.offsets().values()) == 4 and group.lag() == 0
        topic.send("late", partition=1)
        assert sorted(group.lags().values()) == [0, 1]
    cluster.delete_groups([group.id])
    assert group.state == "Dead" and group.offsets() == {}


def test_members_of_consumers_that_were_not_closed_are_removed(cluster: Cluster) -> None:
    topic = cluster.topic("left-open")
    topic.send("a")
    with consumer_of(cluster, "left-open", topic) as consumer:
        read(consumer, 1)
        cluster.delete_groups(["left-open", "never-there"])
        assert "left-open" not in cluster.group_ids()


def test_other_numbers_of_members_are_waited_for(cluster: Cluster) -> None:
    topic = cluster.topic("two-members", partitions=2)
    topic.send("a")
    group = cluster.group("two-members")
    with consumer_of(cluster, group.id, topic) as consumer:
        read(consumer, 1)
        group.wait_assigned(members=1, timeout=TIMEOUT_S)
        with pytest.raises(WaitTimeoutError, match="two-members does not have its partitions"):
            group.wait_assigned(members=2, timeout=SHORT_S)
