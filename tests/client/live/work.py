"""What the live tests have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.client import Admin, Consumer, ConsumerRecord, NewTopic, Producer, TopicPartition

Run = Callable[[Any], Any]
# Metadata of a new topic reaches a broker of Apache Kafka a moment after the controller's response.
PAUSE_S = 0.02
PATIENCE_S = 120


async def make_topic(bootstrap: str, topic: str, partitions: int = 1, **configs: str) -> None:
    """Create a topic and wait until it can be used."""
    options = {name.replace("_", "."): value for name, value in configs.items()}
    async with Admin(bootstrap_servers=bootstrap) as admin:
        (await admin.create_topics([NewTopic(topic, partitions, 1, configs=options)])).raise_first()

        async def is_there() -> bool:
            found = (await admin.describe_topics([topic])).values_by_key.get(topic)
            return found is not None and all(partition.leader is not None for partition in found.partitions)

        await until(is_there)


async def until(condition: Callable[[], Any]) -> None:
    """Wait for a condition that becomes true soon."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            held = condition()
            if held if isinstance(held, bool) else await held:
                return
            await asyncio.sleep(PAUSE_S)


async def fill(bootstrap: str, topic: str, values: list[bytes | None], **options: Any) -> None:
    """Records in partition 0."""
    async with Producer(bootstrap_servers=bootstrap, **options) as producer:
        for value in values:
            await producer.send(topic, value, partition=0)


async def read(
    bootstrap: str, topic: str, count: int, partitions: int = 1, **options: Any
) -> list[ConsumerRecord]:
    """The first records of a topic."""
    settings = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, **options}
    async with Consumer(bootstrap_servers=bootstrap, **settings) as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        return await take(consumer, count)


async def take(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Read exactly this many records."""
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(records) < count:
            records += await consumer.poll(200)
    assert len(records) == count, f"{len(records)} records came, not {count}"
    return records


def offsets(found: Mapping[TopicPartition, Any]) -> dict[int, int | None]:
    """Committed offsets by partition number."""
    return {partition.partition: None if one is None else one.offset for partition, one in found.items()}
