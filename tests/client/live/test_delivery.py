"""The producer against a broker: where records go when chance decides, and what becomes of those that it
refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client import Admin, Producer
from barnabas.client import errors as client_errors
from barnabas.client.admin.security.quotas import QuotaAlteration, quota_entity
from tests.client.live.work import Run, make_topic


def test_a_record_fails_after_its_delivery_timeout(
    bootstrap: str, topic: str, fresh_name: Callable[[], str], run: Run
) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        client_id = fresh_name()
        async with Admin(bootstrap_servers=bootstrap) as admin:
            entity = quota_entity(client_id=client_id)
            (
                await admin.alter_client_quotas([QuotaAlteration(entity, {"producer_byte_rate": 10.0})])
            ).raise_first()
        options: dict[str, Any] = {"delivery_timeout_ms": 700, "request_timeout_ms": 500, "linger_ms": 0}
        calls: list[object] = []
        taken = 0
        producer = Producer(bootstrap_servers=bootstrap, client_id=client_id, **options)
        # Once the quota applies, the broker throttles this client for minutes.
        with pytest.raises(client_errors.KafkaTimeoutError):
            while True:
                sent = await producer.send(
                    topic, bytes(20_000), on_delivery=lambda _, error: calls.append(error)
                )
                await sent
                taken += 1
        assert [type(one) for one in calls] == [type(None)] * taken + [client_errors.KafkaTimeoutError]
        await producer.close(timeout_ms=0)

    run(work())


def test_records_at_random(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic, 3)
        async with Producer(bootstrap_servers=bootstrap, partitioner_class="random") as producer:
            sent = [await producer.send(topic, b"x", b"same key") for _ in range(200)]
            assert {(await one).partition for one in sent} == {0, 1, 2}

    run(work())
