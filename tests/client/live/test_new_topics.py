"""Topics that are not there yet when they are subscribed to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.client import Admin, Consumer, Producer
from barnabas.client.admin.topics import NewTopic

PATIENCE_S = 120


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_topic_that_comes_later_is_read(bootstrap: str, topic: str, group: str, protocol: str) -> None:
    """Without waiting for `metadata.max.age.ms`, which is five minutes."""

    async def run() -> None:
        options: dict[str, Any] = {
            "group_id": group,
            "group_protocol": protocol,
            "auto_offset_reset": "earliest",
        }
        async with Consumer(
            bootstrap_servers=bootstrap, allow_auto_create_topics=False, **options
        ) as consumer:
            consumer.subscribe([topic])
            assert await consumer.poll(timeout_ms=1_000) == []
            async with Admin(bootstrap_servers=bootstrap) as admin:
                (await admin.create_topics([NewTopic(topic, 1, 1)])).raise_first()
            async with Producer(bootstrap_servers=bootstrap) as producer:
                await producer.send_and_wait(topic, b"at last")
            async with asyncio.timeout(PATIENCE_S):
                async for record in consumer:
                    assert record.value == b"at last"
                    break

    asyncio.run(run())
