"""The clients that people use, on a cluster of the kit: each produces, and consumes in a group."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from barnabas.client.admin import NewTopic
from barnabas.testing import Cluster

with warnings.catch_warnings():
    # It loads its own files in a way that Python does not like any more.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TIMEOUT_S = 120
VALUES = [f"value {number}".encode() for number in range(20)]


@pytest.fixture(scope="module", params=[1, 3])
def brokers(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(request.param) as running:
        assert len(running.bootstrap_servers.split(",")) == request.param
        yield running


def test_confluent_kafka(brokers: Cluster) -> None:
    topic = brokers.topic("confluent", partitions=3)
    servers = {"bootstrap.servers": brokers.bootstrap_servers}
    producer = Producer({**servers, "enable.idempotence": True})
    for value in VALUES:
        producer.produce(topic.name, value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**servers, "group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic.name])
    values: list[Any] = []
    try:
        while len(values) < len(VALUES):
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            assert message.error() is None, message.error()
            values.append(message.value())
        committed = consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    assert sorted(values) == sorted(VALUES)
    assert sum(place.offset for place in committed if place.offset > 0) == len(VALUES)


def test_kafka_python(brokers: Cluster) -> None:
    topic = brokers.topic("kafka-python", partitions=3)
    producer = KafkaProducer(bootstrap_servers=brokers.bootstrap_servers.split(","))
    for sent in [producer.send(topic.name, value) for value in VALUES]:
        sent.get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(
        topic.name,
        bootstrap_servers=brokers.bootstrap_servers.split(","),
        group_id="kafka-python",
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1000,
    )
    values = [next(consumer).value for _ in VALUES]
    consumer.commit()
    assert sum(consumer.committed(place) or 0 for place in consumer.assignment()) == len(VALUES)
    consumer.close()
    assert sorted(values) == sorted(VALUES)


def test_aiokafka(brokers: Cluster) -> None:
    topic = brokers.topic("aiokafka", partitions=3)

    async def work() -> list[Any]:
        producer = AIOKafkaProducer(bootstrap_servers=brokers.bootstrap_servers, enable_idempotence=True)
        await producer.start()
        for value in VALUES:
            await producer.send_and_wait(topic.name, value)
        await producer.stop()
        consumer = AIOKafkaConsumer(
            topic.name,
            bootstrap_servers=brokers.bootstrap_servers,
            group_id="aiokafka",
            auto_offset_reset="earliest",
        )
        await consumer.start()
        try:
            values = [(await consumer.getone()).value for _ in VALUES]
            await consumer.commit()
            return values
        finally:
            await consumer.stop()

    async def in_time() -> list[Any]:
        async with asyncio.timeout(TIMEOUT_S):
            return await work()

    assert sorted(asyncio.run(in_time())) == sorted(VALUES)


def test_a_broker_shows_what_it_has_reported() -> None:
    """The controller is another node, whose metadata the broker fetches a moment later."""
    with Cluster() as cluster:
        admin = cluster.admin
        for number in range(5):
            name = f"shown-{number}"
            admin.create_topics([NewTopic(name, 2, 1)])
            assert name in admin.list_topics()
            admin.create_partitions({name: 4})
            assert len(admin.describe_topics([name])[name].partitions) == 4
            admin.delete_topics([name])
            assert name not in admin.list_topics()
