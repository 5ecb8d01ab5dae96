"""A program as a user writes one from the documentation: all clients, with types.

It keeps the stock of a warehouse: orders come in as JSON, stock levels are counted in transactions, a report is
made with the admin client.  `tests/docs/test_types.py` checks its types, and runs it against a broker.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

from barnabas.client import (
    Admin,
    App,
    Consumer,
    ConsumerOptions,
    ConsumerRecord,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    ProducerOptions,
    RebalanceListener,
    RecordMetadata,
    TopicPartition,
    sync,
)
from barnabas.client.admin import ConfigResource, ConfigResourceType, OffsetSpec
from barnabas.client.errors import KafkaError, RetriableError, TopicAlreadyExistsError, UndeliveredError
from barnabas.client.serialization import LONG, STRING, Format, Json

ORDERS, STOCK, DEAD = "warehouse.orders", "warehouse.stock", "warehouse.dead"


@dataclass(frozen=True)
class Order:
    """Something that leaves the warehouse, or comes in."""

    item: str
    count: int


ORDER: Format[Order] = Json(from_json=lambda fields: Order(**fields), to_json=asdict)


class Remembering(RebalanceListener):
    """Which partitions this program had."""

    def __init__(self) -> None:
        self.had: set[TopicPartition] = set()

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.had.update(partitions)


class Shouting:
    """A deserializer of its own."""

    def deserialize(self, topic: str, data: bytes | None, /) -> str:
        return f"{topic}: {(data or b'').decode().upper()}"


async def prepare(servers: str) -> Mapping[str, int]:
    """Create the topics; how many partitions each has."""
    async with Admin(bootstrap_servers=servers) as admin:
        topics = [NewTopic(ORDERS, 2, 1), NewTopic(STOCK, 1, 1, configs={"cleanup.policy": "compact"})]
        outcomes = await admin.create_topics([*topics, NewTopic(DEAD, 1, 1)])
        for name, error in outcomes.errors.items():
            if not isinstance(error, TopicAlreadyExistsError):
                raise RuntimeError(f"{name}: {error.advice}") from error
        resource = ConfigResource(ConfigResourceType.TOPIC, STOCK)
        entries = (await admin.describe_configs([resource]))[resource]
        assert entries["cleanup.policy"].value == "compact"
        described = await admin.describe_topics([ORDERS, STOCK])
        return {topic.name: len(topic.partitions) for topic in described.values()}


@asynccontextmanager
async def order_producer(servers: str) -> AsyncGenerator[Producer[str, Order]]:
    options: ProducerOptions = {
        "bootstrap_servers": servers,
        "linger_ms": 5,
        "compression_type": "zstd",
        "acks": "all",
    }
    async with Producer(key_serializer=STRING, value_serializer=ORDER, **options) as producer:
        yield producer


async def place(servers: str, orders: Iterable[Order]) -> list[RecordMetadata]:
    """Send orders; where each was written."""
    told: list[RecordMetadata] = []

    def on_delivery(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        if metadata is not None:
            told.append(metadata)
        elif isinstance(error, RetriableError):
            print("again later:", error.advice, file=sys.stderr)

    async with order_producer(servers) as producer:
        deliveries = [
            await producer.send(ORDERS, order, key=order.item, on_delivery=on_delivery) for order in orders
        ]
        places: list[RecordMetadata] = [await delivery for delivery in deliveries]
        last = await producer.send_and_wait(ORDERS, Order("last", 0), "last", headers={"end": b"yes"})
        assert producer.statistics().records_delivered == len(places) + 1
    assert len(told) == len(places)
    return [*places, last]


async def stock(servers: str, count: int) -> dict[str, int]:
    """Count orders in transactions: orders read and levels written belong together."""
    levels: Counter[str] = Counter()
    listener = Remembering()
    options: ConsumerOptions = {
        "bootstrap_servers": servers,
        "group_id": "warehouse",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    async with (
        Consumer(
            key_deserializer=STRING,
            value_deserializer=ORDER,
            **options,
        ) as consumer,
        Producer(
            bootstrap_servers=servers,
            transactional_id="warehouse-1",
            key_serializer=STRING,
            value_serializer=LONG,
        ) as producer,
    ):
        consumer.subscribe([ORDERS], listener=listener)
        seen = 0
        while seen < count:
            async with producer.transaction(consumer):
                for record in await consumer.poll(timeout_ms=1_000):
                    seen += 1
                    levels[record.value.item] += record.value.count
                    await producer.send(STOCK, levels[record.value.item], key=record.key)
        position: dict[TopicPartition, OffsetAndMetadata] = consumer.consumed()
        assert set(position) == listener.had
    return dict(levels)


async def handle(servers: str, count: int) -> list[str]:
    """The same orders by handlers; those that are too large go to the dead letters."""
    app = App(bootstrap_servers=servers, group_id="warehouse-handlers")
    items: list[str] = []

    @app.handler(ORDERS, key=STRING, value=ORDER, concurrency=4, retries=1, dead_letters=DEAD)
    async def on_order(record: ConsumerRecord[str, Order]) -> None:
        items.append(record.value.item)
        if len(set(items)) == count:
            app.stop()
        if record.value.count > 100:
            raise ValueError(f"{record.value.count} {record.value.item} are too many")

    await app.run()
    return items


def report(servers: str) -> list[str]:
    """Without a loop: the newest level of each item, from a program that knows no asyncio."""
    newest: dict[str, int] = {}
    with sync.Consumer(
        STOCK,
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        key_deserializer=STRING,
        value_deserializer=LONG,
    ) as consumer:
        partition = TopicPartition(STOCK, 0)
        end = consumer.end_offsets([partition])[partition]
        while not newest or consumer.position(partition) < end:
            for place, records in consumer.getmany(1_000).items():
                assert place == partition
                for record in records:
                    if record.key is not None:
                        newest[record.key] = record.value
    with sync.Admin(bootstrap_servers=servers) as admin:
        earliest = admin.list_offsets({partition: OffsetSpec.EARLIEST})[partition].offset
    return [f"{item}: {level}" for item, level in sorted(newest.items())] + [f"from {earliest}"]


def buried(servers: str) -> str:
    """The first dead letter, and why it is one."""
    with sync.Consumer(
        DEAD, bootstrap_servers=servers, auto_offset_reset="earliest", value_deserializer=Shouting()
    ) as consumer:
        record = consumer.getone(timeout_ms=60_000)
        reason = dict(record.headers)["dead-letter.error"] or b""
        return f"{record.value.split('{')[0]}{reason.decode()}"


def careless(servers: str) -> int:
    """How many records a program lost that waits for none of them."""
    try:
        with sync.Producer(bootstrap_servers=servers, max_block_ms=200) as producer:
            producer.send(STOCK, b"x", key=b"k", partition=7)
    except UndeliveredError as error:
        return error.count
    return 0


def main(servers: str) -> dict[str, Any]:
    orders = [Order("pears", 3), Order("figs", 2), Order("pears", -1), Order("melons", 1_000)]
    partitions = asyncio.run(prepare(servers))
    places = asyncio.run(place(servers, orders))
    levels = asyncio.run(stock(servers, len(places)))
    items = asyncio.run(handle(servers, len(levels)))
    return {
        "partitions": partitions,
        "levels": levels,
        "items": sorted(set(items)),
        "report": report(servers),
        "buried": buried(servers),
        "lost": careless(servers),
    }


if __name__ == "__main__":
    print(main(sys.argv[1]))
