"""The public calls of a producer: which errors raise immediately, and what closing leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client import Producer
from barnabas.client import errors as client_errors
from barnabas.protocol.messages.metadata import MetadataRequest
from tests.client.scripted import TOPIC, scripted

Run = Callable[[Any], Any]
FOR_EVER_MS = 600_000
NOBODY = "127.0.0.1:1"


def test_leaving_the_block_by_an_exception_sends_accepted_records(run: Run) -> None:
    """The asyncio producer dropped then what the synchronous one sends."""

    async def work() -> None:
        async with scripted() as broker:
            with pytest.raises(ZeroDivisionError):
                async with Producer(bootstrap_servers=broker.bootstrap, linger_ms=30_000) as producer:
                    delivery = await producer.send(TOPIC, b"x")
                    raise ZeroDivisionError
            assert (await delivery).offset == 0

    run(work())


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((None, b"x"), {}, TypeError),
        (("two words", b"x"), {}, client_errors.InvalidTopicError),
        ((TOPIC, "text"), {}, TypeError),
        ((TOPIC, b"x", "key"), {}, TypeError),
        ((TOPIC, b"x"), {"partition": -1}, ValueError),
        ((TOPIC, b"x"), {"timestamp_ms": -1}, ValueError),
        ((TOPIC, b"x"), {"on_delivery": 7}, TypeError),
        ((TOPIC, b"x"), {"headers": [(1, b"x")]}, TypeError),
    ],
)
def test_an_invalid_record_is_rejected_without_a_broker(
    run: Run, arguments: Any, options: Any, error: type[Exception]
) -> None:
    async def work() -> None:
        async with Producer(bootstrap_servers=NOBODY, max_block_ms=FOR_EVER_MS) as producer:
            with pytest.raises(error):
                await producer.send(*arguments, **options)
            assert producer.cluster.wanted == set()
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send_and_wait(TOPIC, b"so that the short way is open")
            with pytest.raises(error):
                await producer.send(*arguments, **options)
            with pytest.raises(error):
                producer.send_nowait(*arguments, **options)
            assert (await producer.send_and_wait(TOPIC, b"the next one")).offset == 1

    run(work())


def test_a_topic_that_was_not_found_is_not_requested_again(run: Run) -> None:
    async def work() -> None:
        options: dict[str, Any] = {"max_block_ms": 50, "retry_backoff_ms": 5}
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
            with pytest.raises(client_errors.KafkaTimeoutError, match="elsewhere"):
                await producer.send("elsewhere", b"x")
            # A request in flight when send() timed out may still have contained it.
            await producer.cluster.update()
            await producer.cluster.update()
            request = broker.requests[-1][0]
            assert isinstance(request, MetadataRequest)
            assert request.topics == []
            await producer.send_and_wait(TOPIC, b"x")
            assert producer.cluster.wanted == {TOPIC}

    run(work())
