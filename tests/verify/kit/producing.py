"""Producers that faults strike, and what is in a topic."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer

from barnabas.client.errors.data import UnknownTopicOrPartitionError
from barnabas.testing import wait_for
from barnabas.testing.kit.topics.topics import Topic
from tests.verify.kit.sides import TIMEOUT_S, Side

# The client id of those that faults strike.
CLIENT = "struck"


class Client:
    """A producer of confluent-kafka, and what it was told."""

    def __init__(self, side: Side, **options: Any) -> None:
        self.told: list[str] = []
        self.throttled = False
        known = {"bootstrap.servers": side.topics.bootstrap_servers, "linger.ms": 0, "client.id": CLIENT}
        self.producer = Producer({**known, "throttle_cb": self._throttled, **options})

    def _throttled(self, _: Any) -> None:
        self.throttled = True

    def send(self, topic: str, value: str) -> None:
        def delivered(error: Any, _: Any) -> None:
            self.told.append(f"{value}: {'delivered' if error is None else error.name()}")

        self.producer.produce(topic, value, on_delivery=delivered)

    def flush(self) -> None:
        assert self.producer.flush(TIMEOUT_S) == 0

    def write(self, topic: str, *written: str) -> None:
        """One after the other: each has a request of its own."""
        for value in written:
            self.send(topic, value)
            self.flush()


def existing_topic(side: Side, name: str) -> Topic:
    """Any broker of Apache Kafka may be asked, and one of them may not know a new topic yet."""

    def look() -> Topic | None:
        try:
            return side.topics.existing_topic(name)
        except UnknownTopicOrPartitionError:
            return None

    found = wait_for(look, TIMEOUT_S)
    assert found is not None
    return found


def values(side: Side, topic: str) -> list[bytes | None]:
    return [record.value for record in existing_topic(side, topic).all_records()]
