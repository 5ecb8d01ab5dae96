"""An application on FastStream, and its tests (`pip install faststream[kafka]`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from faststream import AckPolicy
from faststream.kafka import KafkaBroker

# aiokafka leaves connections to a broker that has gone to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def make_application(servers: str, orders: str, bills: str) -> KafkaBroker:
    """The application: a bill for each order."""
    broker = KafkaBroker(servers.split(","), enable_idempotence=True)

    async def bill(body: str) -> str:
        order = json.loads(body)
        return json.dumps({"order": order["id"], "amount": 10 * order["pieces"]})

    reads = broker.subscriber(
        orders, group_id="billing", auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR
    )
    reads(broker.publisher(bills)(bill))
    return broker


@contextlib.asynccontextmanager
async def running(application: KafkaBroker) -> AsyncIterator[None]:
    await application.start()
    try:
        yield
    finally:
        await application.stop()


def test_an_order_becomes_a_bill(async_kafka: Any) -> None:
    async def work() -> None:
        orders, bills = await async_kafka.topic("orders"), await async_kafka.topic("bills")
        async with running(make_application(async_kafka.bootstrap_servers, orders.name, bills.name)):
            await orders.send({"id": 7, "pieces": 3}, headers={"content-type": "text/plain"})
            assert (await bills.records(1, timeout=60))[0].json == {"order": 7, "amount": 30}
            await async_kafka.group("billing").wait_caught_up(orders, timeout=60)

    asyncio.run(work())


@pytest.mark.barnabas(brokers=3)
def test_bills_are_written_although_their_leader_fails(async_cluster: Any) -> None:
    async def work() -> None:
        orders, bills = await async_cluster.topic("orders"), await async_cluster.topic("bills")
        async with running(make_application(async_cluster.bootstrap_servers, "orders", "bills")):
            await orders.send({"id": 1, "pieces": 1}, headers={"content-type": "text/plain"})
            await bills.records(1, timeout=60)
            async with async_cluster.kill(await async_cluster.leader("bills")) as outage:
                await outage.wait_election(60)
                await orders.send({"id": 2, "pieces": 1}, headers={"content-type": "text/plain"})
                found = await bills.records(2, timeout=60)
        assert {record.json["order"] for record in found} == {1, 2}

    asyncio.run(work())
