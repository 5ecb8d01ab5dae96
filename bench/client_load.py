"""A client in a separate process: it sends or reads records, and reports throughput and cost.

`python -m bench.client_load CLIENT ACTION HOST:PORT TOPIC SIZE COUNT` prints a JSON object: records per
second, CPU seconds per million records, and for paced sending the 99th percentile of the latency.  The work
is the same for each client, configured for speed as its users would.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

BATCH_BYTES = 128 << 10
LINGER_MS = 5
BUFFER_BYTES = 64 << 20
PACE_PER_SECOND = 1000
MAX_POLL_RECORDS = 500
PATIENCE_S = 60


class Meter:
    """Measures from its creation until `read`."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._cpu = cpu_seconds()

    def read(self, count: int) -> dict[str, float]:
        seconds = time.perf_counter() - self._started
        return {"records": count / seconds, "cpu": (cpu_seconds() - self._cpu) / count * 1e6}


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def p99(latencies_s: list[float]) -> dict[str, float]:
    ordered = sorted(latencies_s)
    return {"p99": ordered[int(len(ordered) * 0.99)] * 1000}


# -------------------------------------------------------------------------------------------------- barnabas


async def barnabas_produce(server: str, topic: str, value: bytes, count: int) -> dict[str, float]:
    from barnabas.client import Producer

    async with Producer(
        bootstrap_servers=server, batch_size=BATCH_BYTES, linger_ms=LINGER_MS, buffer_memory=BUFFER_BYTES
    ) as producer:
        await producer.send_and_wait(topic, value)
        meter = Meter()
        send = producer.send
        for _ in range(count):
            await send(topic, value)
        await producer.flush()
        return meter.read(count)


async def barnabas_paced(server: str, topic: str, value: bytes, count: int) -> dict[str, float]:
    from barnabas.client import Producer

    latencies: list[float] = []
    async with Producer(bootstrap_servers=server, linger_ms=0) as producer:
        await producer.send_and_wait(topic, value)
        async for sent in paced(count):
            on_delivery = lambda *_, sent=sent: latencies.append(time.perf_counter() - sent)  # noqa: E731
            await producer.send(topic, value, on_delivery=on_delivery)
        await producer.flush()
    return p99(latencies)


async def barnabas_consume(server: str, topic: str, value: bytes, count: int) -> dict[str, float]:
    from barnabas.client import Consumer, TopicPartition

    async with Consumer(bootstrap_servers=server, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        meter, seen = Meter(), -1
        async for record in consumer:
            if seen < 0:
                assert record.value == value
                meter = Meter()
            seen += 1
            if seen == count:
                break
        return meter.read(count)


async def barnabas_arrow(server: str, topic: str, value: bytes, count: int) -> dict[str, float]:
    from barnabas.client import Consumer, TopicPartition

    async with Consumer(bootstrap_servers=server, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        first = await consumer.poll_arrow(PATIENCE_S * 1000)
        assert first is not None
        assert first.column("value")[0].as_py() == value
        meter, seen = Meter(), 0
        while seen < count:
            batch = await consumer.poll_arrow(PATIENCE_S * 1000)
            assert batch is not None
            seen += batch.num_rows
        return meter.read(seen)


async def barnabas_fill(server: str, topic: str, value: bytes, count: int) -> dict[str, float]:
    """Fills a topic for consumers, with the default batch size of producers."""
    from barnabas.client import Producer

    async with Producer(bootstrap_servers=server, batch_size=16 << 10, linger_ms=LINGER_MS) as producer:
        meter = Meter()
        for _ in range(count):
            await producer.send(topic, value)
        await producer.flush()
        return meter.read(count)


async def paced(count: int) -> AsyncIterator[float]:
    """Yields at a fixed rate."""
    began = time.perf_counter()
    for number in range(count):
        due = began + number / PACE_PER_SECOND
        delay = due - time.perf_counter()
        if delay > 0:
            await asyncio.sleep(delay)
        yield time.perf_counter()


# ------------------------------------------------------------------------------------------------- librdkafka


def confluent_produce(server: str, topic: str, value: bytes, count: int) -> dict[str, float]:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": server,
            "batch.size": BATCH_BYTES,
            "linger.ms": LINGER_MS,
            "queue.buffering.max.kbytes": BUFFER_BYTES >> 10,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    meter = Meter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
        if not number % 1000:
            producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    return meter.read(count)


def confluent_paced(server: str, topic: str, value: bytes, count: int) -> dict[str, float]:
    from confluent_kafka import Producer

    latencies: list[float] = []
    producer = Producer({"bootstrap.servers": server, "linger.ms": 0})
    producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    began = time.perf_counter()
    for number in range(count):
        while time.perf_counter() < began + number / PACE_PER_SECOND:
            producer.poll(0.0002)
        sent = time.perf_counter()
        producer.produce(
            topic, value, on_delivery=lambda *_, sent=sent: latencies.append(time.perf_counter() - sent)
        )
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    return p99(latencies)


def confluent_consume(server: str, topic: str, value: bytes, count: int) -> dict[str, float]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": server, "group.id": "bench", "enable.auto.commit": False, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    (first,) = consumer.consume(1, PATIENCE_S)
    assert first.value() == value
    meter, seen = Meter(), 0
    while seen < count:
        for message in consumer.consume(MAX_POLL_RECORDS, PATIENCE_S):
            assert message.value() is not None
            seen += 1
    measured = meter.read(seen)
    consumer.close()
    return measured


# ----------------------------------------------------------------------------------------------- kafka-python


def kafka_python_produce(server: str, topic: str, value: bytes, count: int) -> dict[str, float]:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=server, acks="all", batch_size=BATCH_BYTES, linger_ms=LINGER_MS
    )
    producer.send(topic, value).get(PATIENCE_S)
    meter = Meter()
    for _ in range(count):
        producer.send(topic, value)
    producer.flush()
    measured = meter.read(count)
    producer.close()
    return measured


def kafka_python_consume(server: str, topic: str, value: bytes, count: int) -> dict[str, float]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=server, auto_offset_reset="earliest", group_id=None)
    consumer.assign([TopicPartition(topic, 0)])
    meter, seen = Meter(), -1
    for record in consumer:
        if seen < 0:
            assert record.value == value
            meter = Meter()
        seen += 1
        if seen == count:
            break
    measured = meter.read(count)
    consumer.close()
    return measured


# --------------------------------------------------------------------------------------------------- aiokafka


async def aiokafka_produce(server: str, topic: str, value: bytes, count: int) -> dict[str, float]:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=server, acks="all", max_batch_size=BATCH_BYTES, linger_ms=LINGER_MS
    )
    await producer.start()
    await producer.send_and_wait(topic, value)
    meter = Meter()
    for _ in range(count):
        await producer.send(topic, value)
    await producer.flush()
    measured = meter.read(count)
    await producer.stop()
    return measured


async def aiokafka_paced(server: str, topic: str, value: bytes, count: int) -> dict[str, float]:
    from aiokafka import AIOKafkaProducer

    latencies: list[float] = []
    producer = AIOKafkaProducer(bootstrap_servers=server, acks="all", linger_ms=0)
    await producer.start()
    await producer.send_and_wait(topic, value)
    async for sent in paced(count):
        future = await producer.send(topic, value)
        future.add_done_callback(lambda _, sent=sent: latencies.append(time.perf_counter() - sent))
    await producer.flush()
    await producer.stop()
    return p99(latencies)


async def aiokafka_consume(server: str, topic: str, value: bytes, count: int) -> dict[str, float]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=server, auto_offset_reset="earliest", group_id=None)
    await consumer.start()
    consumer.assign([TopicPartition(topic, 0)])
    meter, seen = Meter(), -1
    async for record in consumer:
        if seen < 0:
            assert record.value == value
            meter = Meter()
        seen += 1
        if seen == count:
            break
    measured = meter.read(count)
    await consumer.stop()
    return measured


Work = Callable[[str, str, bytes, int], dict[str, float] | Awaitable[dict[str, float]]]
WORK: dict[tuple[str, str], Work] = {
    ("barnabas", "produce"): barnabas_produce,
    ("barnabas", "paced"): barnabas_paced,
    ("barnabas", "consume"): barnabas_consume,
    ("barnabas", "arrow"): barnabas_arrow,
    ("barnabas", "fill"): barnabas_fill,
    ("confluent-kafka", "produce"): confluent_produce,
    ("confluent-kafka", "paced"): confluent_paced,
    ("confluent-kafka", "consume"): confluent_consume,
    ("kafka-python", "produce"): kafka_python_produce,
    ("kafka-python", "consume"): kafka_python_consume,
    ("aiokafka", "produce"): aiokafka_produce,
    ("aiokafka", "paced"): aiokafka_paced,
    ("aiokafka", "consume"): aiokafka_consume,
}


def main(arguments: list[str]) -> None:
    client, action, server, topic, size, count = arguments
    done: Any = WORK[client, action](server, topic, b"x" * int(size), int(count))
    if not isinstance(done, dict):
        done = asyncio.run(done)
    print(json.dumps(done))


if __name__ == "__main__":
    main(sys.argv[1:])
