"""An idempotent producer of confluent-kafka under faults, and what was acknowledged to it."""

from __future__ import annotations

import threading
import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.verify.quorum.mixed_cluster import PATIENCE_S, wait_for

BURST = 50
PAUSE_S = 0.02
# Polls without a record after which a partition counts as read.
LAST_POLLS = 5


class ConfluentLoad:
    """Numbered records; `acknowledged` are partition and offset -> value."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failed: list[Any] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": PATIENCE_S * 1_000,
                "request.timeout.ms": 5_000,
            }
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            try:
                self._producer.produce(
                    self.topic, key=str(number), value=f"value {number}", callback=self._delivered
                )
            except BufferError:
                self._producer.poll(0.1)
                continue
            number += 1
            self._producer.poll(0)
            if number % BURST == 0:
                time.sleep(PAUSE_S)
        self._producer.flush(PATIENCE_S)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            self.acknowledged[message.partition(), message.offset()] = message.value()

    def wait_for_more(self, records: int) -> None:
        wanted = len(self.acknowledged) + records
        wait_for("more is acknowledged", lambda: len(self.acknowledged) >= wanted)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)


def read_all(bootstrap: str, topic: str, partitions: int) -> dict[tuple[int, int], bytes]:
    """Every committed record, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: dict[tuple[int, int], bytes] = {}
    empty = 0
    while empty < LAST_POLLS:
        messages = consumer.consume(1_000, 1.0)
        empty = 0 if messages else empty + 1
        for message in messages:
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert message.error() is None, message.error()
            assert partition is not None, "a record has a partition"
            assert offset is not None, "a record has an offset"
            found[partition, offset] = value or b""
    consumer.close()
    return found
