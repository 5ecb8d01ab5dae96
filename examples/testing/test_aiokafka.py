"""An application on aiokafka, and its tests."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

# aiokafka leaves connections to a broker that has gone to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


async def double(servers: str, source: str, target: str, count: int) -> None:
    """The application: writes twice of every number."""
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=servers,
        group_id="doubling",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    producer = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
    await producer.start()
    await consumer.start()
    try:
        for _ in range(count):
            record = await consumer.getone()
            await producer.send_and_wait(target, json.dumps(2 * json.loads(record.value)).encode())
            await consumer.commit()
    finally:
        await consumer.stop()
        await producer.stop()


def test_numbers_are_doubled(async_kafka: Any) -> None:
    async def work() -> None:
        source, target = await async_kafka.topic("source"), await async_kafka.topic("target")
        await source.send(21)
        await asyncio.wait_for(double(async_kafka.bootstrap_servers, source.name, target.name, 1), 60)
        assert (await target.records(1))[0].json == 42

    asyncio.run(work())


@pytest.mark.barnabas(brokers=3)
def test_numbers_are_doubled_although_a_leader_fails(cluster: Any) -> None:
    source, target = cluster.topic("source"), cluster.topic("target")
    for number in range(3):
        source.send(number)
    with cluster.kill(cluster.leader("target")).wait_election(60):
        asyncio.run(asyncio.wait_for(double(cluster.bootstrap_servers, "source", "target", 3), 60))
    assert {record.json for record in target.records(3, timeout=60)} == {0, 2, 4}
