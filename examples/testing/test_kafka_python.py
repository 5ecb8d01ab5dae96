"""An application on kafka-python, and its tests."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer

# kafka-python leaves connections to a broker that has gone to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def shout(servers: str, source: str, target: str, count: int) -> None:
    """The application: writes everything in capital letters."""
    consumer = KafkaConsumer(
        source,
        bootstrap_servers=servers.split(","),
        group_id="shouting",
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
    )
    producer = KafkaProducer(bootstrap_servers=servers.split(","), retries=100)
    for _ in range(count):
        producer.send(target, next(consumer).value.upper()).get(60)
    consumer.close()
    producer.close()


def test_text_is_shouted(kafka: Any) -> None:
    source, target = kafka.topic("source"), kafka.topic("target")
    source.send("hello")
    shout(kafka.bootstrap_servers, source.name, target.name, 1)
    assert target.records(1)[0].value == b"HELLO"
    kafka.group("shouting").wait_caught_up(source)


@pytest.mark.barnabas(brokers=3)
def test_text_is_shouted_although_a_leader_fails(cluster: Any) -> None:
    source, target = cluster.topic("source"), cluster.topic("target")
    source.send("hello")
    with cluster.kill(cluster.leader("target")).wait_election(60):
        shout(cluster.bootstrap_servers, "source", "target", 1)
    assert target.records(1, timeout=60)[0].value == b"HELLO"
