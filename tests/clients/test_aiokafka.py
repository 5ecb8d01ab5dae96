"""aiokafka: a client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import MessageSizeTooLargeError

from tests.recent import RECENT_MS

TIMEOUT_S = 120
CODECS = (None, "gzip", "snappy", "lz4", "zstd")


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def in_time() -> Any:
        async with asyncio.timeout(TIMEOUT_S):
            return await work

    return asyncio.run(in_time())


async def read(bootstrap: str, topic: str, count: int) -> list[Any]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, fetch_max_wait_ms=50)
    await consumer.start()
    try:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        return [await consumer.getone(place) for _ in range(count)]
    finally:
        await consumer.stop()


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(bootstrap: str, topic: str, codec: str | None) -> None:
    async def work() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=10)
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic,
                    key=f"k{number}".encode(),
                    value=None if number % 7 == 6 else f"value {number} ".encode() * 10,
                    headers=[("h", str(number).encode())],
                    timestamp_ms=RECENT_MS + number,
                    partition=0,
                )
                for number in range(100)
            ]
            assert [(await one).offset for one in sent] == list(range(100))
        finally:
            await producer.stop()
        for number, record in enumerate(await read(bootstrap, topic, 100)):
            assert (record.offset, record.key) == (number, f"k{number}".encode())
            assert record.value == (None if number % 7 == 6 else f"value {number} ".encode() * 10)
            assert list(record.headers) == [("h", str(number).encode())]
            assert record.timestamp == RECENT_MS + number

    run(work())


def test_idempotence(bootstrap: str, topic: str) -> None:
    async def work() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        await producer.start()
        try:
            for number in range(50):
                await producer.send_and_wait(topic, str(number).encode(), partition=0)
        finally:
            await producer.stop()
        assert [int(one.value) for one in await read(bootstrap, topic, 50)] == list(range(50))

    run(work())


def test_a_record_that_is_too_large(bootstrap: str, topic: str) -> None:
    async def work() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, max_request_size=5_000_000)
        await producer.start()
        try:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic, bytes(2_000_000), partition=0)
        finally:
            await producer.stop()

    run(work())


def test_offsets_by_time(bootstrap: str, topic: str) -> None:
    async def work() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
        await producer.start()
        for number in range(10):
            await producer.send_and_wait(topic, b"x", partition=0, timestamp_ms=RECENT_MS + number * 100)
        await producer.stop()
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
        await consumer.start()
        try:
            place = TopicPartition(topic, 0)
            assert await consumer.beginning_offsets([place]) == {place: 0}
            assert await consumer.end_offsets([place]) == {place: 10}
            found = await consumer.offsets_for_times({place: RECENT_MS + 450})
            assert found[place].offset == 5
        finally:
            await consumer.stop()

    run(work())


def test_topics(bootstrap: str, topic: str) -> None:
    async def work() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(topic, 2, 1)])
            assert topic in await admin.list_topics()
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 2
            await admin.delete_topics([topic])
            assert topic not in await admin.list_topics()
        finally:
            await admin.close()

    run(work())
