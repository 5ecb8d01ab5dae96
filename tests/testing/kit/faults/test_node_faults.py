"""Faults of nodes, disks, links, groups and transactions, as clients see them."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer

from barnabas.client.sync import Producer as OurProducer
from barnabas.testing import Cluster, KitError, wait_for

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer

# kafka-python and aiokafka leave sockets to the garbage collector when a broker goes.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        yield running


def test_confluent_kafka_goes_on_when_a_leader_is_killed(cluster: Cluster) -> None:
    topic = cluster.topic("killed-confluent")
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    producer = Producer({**servers, "enable.idempotence": True})
    consumer = Consumer({**servers, "group.id": "killed-confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic.name])
    try:
        producer.produce(topic.name, b"before")
        assert producer.flush(TIMEOUT_S) == 0
        values = [consumer.poll(TIMEOUT_S).value()]  # type: ignore[union-attr]
        killed = cluster.leader(topic.name)
        with cluster.kill(killed).wait_election(TIMEOUT_S):
            assert cluster.leader(topic.name) != killed
            producer.produce(topic.name, b"during")
            assert producer.flush(TIMEOUT_S) == 0
            values.append(consumer.poll(TIMEOUT_S).value())  # type: ignore[union-attr]
        assert values == [b"before", b"during"]
        wait_for(lambda: killed in cluster.isr(topic.name), TIMEOUT_S)
    finally:
        consumer.close()
    assert len(topic.all_records()) == 2


def test_aiokafka_goes_on_when_a_leader_is_killed(cluster: Cluster) -> None:
    topic = cluster.topic("killed-aiokafka")

    async def work() -> list[Any]:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=True)
        consumer = AIOKafkaConsumer(
            topic.name,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="killed-aiokafka",
            auto_offset_reset="earliest",
            # Its last commit, within stop(), does not look for a new coordinator and never ends.
            enable_auto_commit=False,
        )
        await producer.start()
        await consumer.start()
        try:
            await producer.send_and_wait(topic.name, b"before")
            values = [(await consumer.getone()).value]
            with cluster.kill(cluster.leader(topic.name)).wait_election(TIMEOUT_S):
                await producer.send_and_wait(topic.name, b"during")
                return [*values, (await consumer.getone()).value]
        finally:
            await consumer.stop()
            await producer.stop()

    async def in_time() -> list[Any]:
        async with asyncio.timeout(TIMEOUT_S):
            return await work()

    assert asyncio.run(in_time()) == [b"before", b"during"]


def test_kafka_python_goes_on_when_a_leader_is_killed(cluster: Cluster) -> None:
    topic = cluster.topic("killed-kafka-python")
    servers = cluster.bootstrap_servers.split(",")
    producer = KafkaProducer(bootstrap_servers=servers, retries=100)
    producer.send(topic.name, b"before").get(TIMEOUT_S)
    with cluster.kill(cluster.leader(topic.name)).wait_election(TIMEOUT_S):
        producer.send(topic.name, b"during").get(TIMEOUT_S)
        consumer = KafkaConsumer(
            topic.name,
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            consumer_timeout_ms=TIMEOUT_S * 1000,
        )
        assert [next(consumer).value for _ in range(2)] == [b"before", b"during"]
        consumer.close()
    producer.close()


def test_a_broker_that_is_shut_down_hands_over_first(cluster: Cluster) -> None:
    topic = cluster.topic("shut-down")
    leader = cluster.leader(topic.name)
    with cluster.shut_down(leader):
        # The controller has moved the leadership before it let the broker go.
        assert cluster.leader(topic.name) != leader
        topic.send("during")
    assert [record.value for record in topic.records(1, timeout=TIMEOUT_S)] == [b"during"]


def test_what_is_asked_of_a_paused_broker_is_answered_when_it_goes_on(cluster: Cluster) -> None:
    topic = cluster.topic("paused", replication_factor=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
    producer.produce(topic.name, b"before")
    assert producer.flush(TIMEOUT_S) == 0
    with cluster.pause(cluster.leader(topic.name)):
        assert "is paused" in cluster.interventions()[0]
        producer.produce(topic.name, b"during")
        assert producer.flush(0.2) == 1
    assert producer.flush(TIMEOUT_S) == 0
    assert len(topic.records(2, timeout=TIMEOUT_S)) == 2
    assert cluster.interventions() == []


def test_a_paused_broker_that_is_fenced_loses_its_leaderships(cluster: Cluster) -> None:
    topic = cluster.topic("fenced")
    leader = cluster.leader(topic.name)
    with cluster.pause(leader, fence=True) as outage:
        outage.wait_election(TIMEOUT_S)
        assert cluster.leader(topic.name) != leader
        topic.send("during")
    # Its old leader epoch is over: it follows.
    wait_for(lambda: leader in cluster.isr(topic.name), TIMEOUT_S)
    assert [record.value for record in topic.all_records()] == [b"during"]


def test_a_leader_that_is_cut_off_cannot_commit(cluster: Cluster) -> None:
    topic = cluster.topic("cut-off", configs={"min.insync.replicas": 2})
    leader = cluster.leader(topic.name)
    with OurProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
        producer.send(topic.name, b"before").result(TIMEOUT_S)
        others = [broker for broker in cluster.brokers if broker != leader]
        with cluster.faults.partition(leader, *others):
            during = producer.send(topic.name, b"during")
            # Written by the leader, and seen by nobody.
            place = cluster.running.node(leader).broker.replicas
            wait_for(
                lambda: cluster.running.call(
                    lambda: any(log.end_offset == 2 for log in place.storage.manager.all_logs())
                ),
                TIMEOUT_S,
            )
            assert not during.done
            assert [record.value for record in topic.all_records()] == [b"before"]
        during.result(TIMEOUT_S)
    assert [record.value for record in topic.all_records()] == [b"before", b"during"]


def test_another_leader_may_be_elected(cluster: Cluster) -> None:
    topic = cluster.topic("elected")
    leader = cluster.leader(topic.name)
    other = cluster.elect(topic.name)
    assert other != leader and cluster.leader(topic.name) == other
    third = next(broker for broker in cluster.brokers if broker not in (leader, other))
    assert cluster.elect(topic.name, leader=third) == third == cluster.leader(topic.name)
    topic.send("here", timestamp=1_700_000_000_000)
    assert len(topic.records(1, timeout=TIMEOUT_S)) == 1


def test_too_few_replicas_in_sync_refuse_writes(cluster: Cluster) -> None:
    topic = cluster.topic("shrunk", configs={"min.insync.replicas": 3})
    follower = next(broker for broker in cluster.brokers if broker != cluster.leader(topic.name))
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","), acks="all", retries=0)
    with cluster.faults.shrink_isr(topic.name, 0, follower, timeout=TIMEOUT_S):
        assert follower not in cluster.isr(topic.name)
        with pytest.raises(Exception, match="NotEnoughReplicas"):
            producer.send(topic.name, b"refused").get(TIMEOUT_S)
    wait_for(lambda: follower in cluster.isr(topic.name), TIMEOUT_S)
    producer.send(topic.name, b"written").get(TIMEOUT_S)
    producer.close()
    with pytest.raises(KitError, match="choose one of its followers"):
        cluster.faults.shrink_isr(topic.name, 0, cluster.leader(topic.name))


def test_a_full_disk_refuses_writes_and_serves_reads(cluster: Cluster) -> None:
    topic = cluster.topic("full", replication_factor=1)
    topic.send("before")
    leader = cluster.leader(topic.name)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","), retries=0)
    with cluster.faults.full_disk(leader):
        with pytest.raises(Exception, match="KafkaStorageError"):
            producer.send(topic.name, b"refused").get(TIMEOUT_S)
        assert [record.value for record in topic.all_records()] == [b"before"]

    def is_written() -> bool:
        try:
            producer.send(topic.name, b"after").get(TIMEOUT_S)
        except Exception as error:
            raise AssertionError("still refused") from error
        return True

    wait_for(is_written, TIMEOUT_S)
    producer.close()
    assert [record.value for record in topic.all_records()] == [b"before", b"after"]


def test_a_slow_disk_delays_writes(cluster: Cluster) -> None:
    topic = cluster.topic("slow", replication_factor=1)
    topic.send("before")
    with cluster.faults.slow_disk(cluster.leader(topic.name), 0.2):
        began = time.monotonic()
        topic.send("during")
        assert time.monotonic() - began >= 0.2


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_forced_rebalance_takes_partitions_and_gives_them_back(cluster: Cluster, protocol: str) -> None:
    topic = cluster.topic(f"rebalanced-{protocol}", partitions=2)
    events: list[str] = []
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"rebalanced-{protocol}",
            "group.protocol": protocol,
            **({} if protocol == "consumer" else {"heartbeat.interval.ms": 100}),
        }
    )
    consumer.subscribe(
        [topic.name],
        on_assign=lambda _, places: events.append(f"assigned {len(places)}"),
        on_revoke=lambda _, places: events.append(f"revoked {len(places)}"),
        on_lost=lambda _, places: events.append(f"revoked {len(places)}"),
    )

    def polled(count: int) -> bool:
        consumer.poll(0.05)
        return len(events) >= count

    try:
        wait_for(lambda: polled(1), TIMEOUT_S)
        cluster.group(f"rebalanced-{protocol}").wait_assigned(topic, members=1, timeout=TIMEOUT_S)
        cluster.faults.rebalance(f"rebalanced-{protocol}")
        wait_for(lambda: polled(3), TIMEOUT_S)
        assert events[:3] == ["assigned 2", "revoked 2", "assigned 2"]
    finally:
        consumer.close()
    with pytest.raises(KitError, match="has no members"):
        cluster.faults.rebalance(f"rebalanced-{protocol}")


def test_an_expired_transaction_fences_its_producer(cluster: Cluster) -> None:
    topic = cluster.topic("expired")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "expired"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic.name, b"lost")
    assert producer.flush(TIMEOUT_S) == 0
    cluster.faults.expire_transaction("expired")
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(TIMEOUT_S)
    assert refused.value.args[0].name() in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
    assert topic.all_records(committed=True) == []
    with pytest.raises(KitError, match="no open transaction"):
        cluster.faults.expire_transaction("expired")


def test_nodes_that_are_down_already_are_not_killed_again(cluster: Cluster) -> None:
    with cluster.kill(2) as outage:
        with pytest.raises(KitError, match="node 2 is killed already"):
            cluster.kill(2)
        cluster.restart(2)
        outage.end()
    with pytest.raises(KitError, match="node 2 is running"):
        cluster.restart(2)
