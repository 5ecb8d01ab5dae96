"""Failures as users meet them: the first line of the error names the cause."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.testing import Cluster, WaitTimeoutError, wait_for
from barnabas.testing.kit.topics.topics import Topic

TIMEOUT_S = 60.0
SHORT_S = 0.1

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
warnings.filterwarnings("ignore", category=DeprecationWarning)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        yield running


def lines_of(wait: Callable[[], object]) -> tuple[str, list[str]]:
    with pytest.raises(WaitTimeoutError) as failed:
        wait()
    first, *rest = str(failed.value).splitlines()
    return first, rest


def first_line_of(wait: Callable[[], object]) -> str:
    return lines_of(wait)[0]


@contextmanager
def member_of(cluster: Cluster, group: str, topic: Topic, **options: Any) -> Iterator[Consumer]:
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
        wait_for(lambda: consumer.poll(0.02) or consumer.assignment(), TIMEOUT_S)
        yield consumer
    finally:
        consumer.close()


def caught_up(cluster: Cluster, group: str, *topics: Topic) -> Callable[[], None]:
    return lambda: cluster.group(group).wait_caught_up(*topics, timeout=SHORT_S)


def test_1_nobody_has_joined(cluster: Cluster) -> None:
    line = first_line_of(caught_up(cluster, "never-there"))
    assert line == "the group never-there has not caught up after 0.1 s: there is no group never-there"


def test_2_the_consumer_has_gone(cluster: Cluster) -> None:
    topic = cluster.topic("gone")
    topic.send("a")
    with member_of(cluster, "gone", topic) as consumer:
        consumer.commit(offsets=[_at(topic, 0)], asynchronous=False)
    assert "no members" in first_line_of(caught_up(cluster, "gone"))


def test_3_the_consumer_began_at_the_end(cluster: Cluster) -> None:
    topic = cluster.topic("at-the-end")
    topic.send("a")
    with member_of(cluster, "at-the-end", topic, **{"auto.offset.reset": "latest"}):
        line = first_line_of(caught_up(cluster, "at-the-end"))
    assert "nothing is committed, and 1 record was written before the consumer started" in line, line


def test_4_no_replica_of_the_partition_is_alive(cluster: Cluster) -> None:
    topic = cluster.topic("no-leader", replication_factor=1)
    topic.send("a")
    with cluster.kill(cluster.leader(topic.name)):
        line = first_line_of(lambda: topic.records(1, timeout=SHORT_S))
    assert "no-leader-0 has no leader" in line, line


def test_5_too_few_replicas_are_in_sync(cluster: Cluster) -> None:
    topic = cluster.topic("held", configs={"min.insync.replicas": 3})
    follower = next(broker for broker in cluster.brokers if broker != cluster.leader(topic.name))
    with member_of(cluster, "held", topic) as consumer:
        consumer.commit(offsets=[_at(topic, 0)], asynchronous=False)
        with cluster.faults.shrink_isr(topic.name, 0, follower, timeout=TIMEOUT_S):
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": 1})
            producer.produce(topic.name, b"unseen")
            assert producer.flush(TIMEOUT_S) == 0
            line = first_line_of(lambda: topic.records(1, timeout=SHORT_S))
    assert re.search(
        r"held-0 has records from offset 0 on that too few replicas have: its ISR is \[\d, \d\] of "
        r"\[1, 2, 3\], and min\.insync\.replicas=3",
        line,
    ), line


def test_6_an_open_transaction_holds_records_back(cluster: Cluster) -> None:
    topic = cluster.topic("open-transaction")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "open"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic.name, b"a")
    assert producer.flush(TIMEOUT_S) == 0
    line = first_line_of(lambda: topic.records(1, timeout=SHORT_S, committed=True))
    assert "an open transaction holds back the records of open-transaction-0 from offset 0" in line, line
    producer.abort_transaction(TIMEOUT_S)


def test_7_the_next_record_cannot_be_decoded(cluster: Cluster) -> None:
    topic = cluster.topic("undecodable")
    for number in range(3):
        topic.send({"id": number})
    topic.send(b"\xff no JSON")
    with member_of(cluster, "undecodable", topic) as consumer:
        consumer.commit(offsets=[_at(topic, 3)], asynchronous=False)
        line = first_line_of(caught_up(cluster, "undecodable"))
    assert "undecodable-0: the next record, at offset 3, cannot be decoded" in line, line


def test_8_the_topic_is_gone(cluster: Cluster) -> None:
    topic = cluster.topic("deleted")
    cluster.delete_topics([topic.name])
    line = first_line_of(lambda: topic.records(1, timeout=SHORT_S))
    assert "there is no topic deleted: it was deleted, or never created" in line, line


def test_9_the_test_itself_has_paused_the_broker(cluster: Cluster) -> None:
    topic = cluster.topic("paused", replication_factor=1)
    leader = cluster.leader(topic.name)
    with cluster.pause(leader):
        line, rest = lines_of(lambda: topic.records(1, timeout=SHORT_S))
    assert f"node {leader} is paused" in line, line
    assert rest == ["what is in it is not known: a leader does not answer"]


def test_10_the_test_itself_refuses_the_requests(cluster: Cluster) -> None:
    topic = cluster.topic("refused")
    topic.send("a")
    with cluster.faults.add("Fetch", error="NOT_LEADER_OR_FOLLOWER", topic=topic.name):
        line, rest = lines_of(lambda: topic.records(1, timeout=SHORT_S))
    assert rest == ["it has offsets up to 1, of which 0 were read"]
    assert "the fault Fetch(error=NOT_LEADER_OR_FOLLOWER, topic=refused)" in line, line


def test_11_the_consumer_does_not_commit(cluster: Cluster) -> None:
    topic = cluster.topic("uncommitted")
    topic.send("a")
    with member_of(cluster, "uncommitted", topic) as consumer:
        consumer.commit(offsets=[_at(topic, 0)], asynchronous=False)
        line = first_line_of(caught_up(cluster, "uncommitted"))
    assert "uncommitted-0: 1 record can be read, but rdkafka" in line, line
    assert line.endswith("it is paused, busy with one, or does not commit"), line


def test_12_fewer_records_were_written(cluster: Cluster) -> None:
    topic = cluster.topic("fewer")
    line = first_line_of(lambda: topic.records(1, timeout=SHORT_S))
    assert line == "the topic fewer has 0 of 1 records after 0.1 s: nothing was written to it"


def _at(topic: Topic, offset: int) -> Any:
    from confluent_kafka import TopicPartition

    return TopicPartition(topic.name, 0, offset)
