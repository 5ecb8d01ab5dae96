"""A consumer that is closed while its group rebalances leaves at once: other members need not wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from barnabas.client import Admin, Consumer, Producer

PATIENCE_S = 120


def test_leaving_while_others_have_yet_to_join(
    run: Callable[[Coroutine[Any, Any, Any]], Any], bootstrap: str, topic: str, group: str
) -> None:
    def member() -> Consumer:
        consumer = Consumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
        consumer.subscribe([topic])
        return consumer

    async def size(admin: Admin) -> int:
        return len((await admin.describe_consumer_groups([group]))[group].members)

    async def work() -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait(topic, b"1")
        async with Admin(bootstrap_servers=bootstrap) as admin, member() as first:
            while not first.assignment():
                await first.poll(timeout_ms=100)
            second = member()
            # The first one does not poll: the join of the second waits for it.
            while await size(admin) < 2:
                await second.poll(timeout_ms=100)
            await second.close(timeout_ms=PATIENCE_S * 1_000)
            async with asyncio.timeout(PATIENCE_S):
                while await size(admin) > 1:
                    await asyncio.sleep(0.05)

    run(work())
