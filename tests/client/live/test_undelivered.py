"""Records that fail unseen are reported when the producer closes; those whose error was seen are not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client import Admin, Consumer, NewTopic, Producer, TopicPartition, sync
from barnabas.client import errors as client_errors
from tests.client.live.work import Run

PATIENCE_S = 60
BIG = bytes(2_000)


async def small_topic(bootstrap: str, topic: str) -> None:
    """A topic that refuses records of more than a kilobyte."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        created = await admin.create_topics([NewTopic(topic, 1, 1, configs={"max.message.bytes": "1000"})])
        created.raise_first()


def test_a_failure_that_nobody_saw(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await small_topic(bootstrap, topic)
        with pytest.raises(client_errors.UndeliveredError) as raised:
            async with Producer(bootstrap_servers=bootstrap) as producer:
                await producer.send(topic, b"fits")
                await producer.flush()
                await producer.send(topic, BIG)
        error = raised.value
        assert error.count == 1
        assert error.message.startswith(f"1 record was not delivered: 1 for {topic}-0 (MESSAGE_TOO_LARGE")
        assert isinstance(error.errors[f"{topic}-0"], client_errors.MessageTooLargeError)
        assert "Await each delivery" in error.advice

    run(work())


def test_failures_that_somebody_saw(bootstrap: str, topic: str, run: Run) -> None:
    """By awaiting, by a look at the error, by a callback, and by waiting at the time of the failure."""

    async def work() -> None:
        await small_topic(bootstrap, topic)
        told: list[Any] = []
        async with Producer(bootstrap_servers=bootstrap) as producer:
            with pytest.raises(client_errors.MessageTooLargeError):
                await producer.send_and_wait(topic, BIG)
            looked_at = await producer.send(topic, BIG)
            await producer.send(topic, BIG, on_delivery=lambda *result: told.append(result))
            await producer.flush()
            assert looked_at.error is not None
            waited_for = await producer.send(topic, BIG)
            waiting = asyncio.ensure_future(_waited(waited_for))
            await asyncio.sleep(0)
        assert isinstance(await waiting, client_errors.MessageTooLargeError)
        assert [type(error) for _, error in told] == [client_errors.MessageTooLargeError]

    run(work())


async def _waited(delivery: Any) -> Exception | None:
    try:
        await delivery
    except client_errors.KafkaError as error:
        return error
    return None


def test_an_error_in_the_block_is_not_hidden(
    bootstrap: str, topic: str, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        await small_topic(bootstrap, topic)
        async with Producer(bootstrap_servers=bootstrap) as producer:
            await producer.send(topic, BIG)
            raise ZeroDivisionError

    with caplog.at_level(logging.ERROR), pytest.raises(ZeroDivisionError):
        run(work())
    assert "1 record was not delivered" in caplog.text


def test_the_blocking_producer_ends_alike(bootstrap: str, topic: str, run: Run) -> None:
    """Also for records that never came into a batch."""
    run(small_topic(bootstrap, topic))
    with (
        pytest.raises(client_errors.UndeliveredError, match="2 records were not delivered") as raised,
        sync.Producer(bootstrap_servers=bootstrap, max_block_ms=300) as producer,
    ):
        producer.send(topic, BIG)
        producer.send(topic, b"x", partition=77)
        seen = producer.send(topic, b"y", partition=78)
        with pytest.raises(client_errors.KafkaTimeoutError):
            seen.result(PATIENCE_S)
        told: list[Any] = []
        producer.send(topic, b"z", partition=79, on_delivery=lambda *result: told.append(result))
    assert set(raised.value.errors) == {topic, f"{topic}-0"}
    assert len(told) == 1


def test_an_aborted_transaction_loses_nothing(
    bootstrap: str, topic: str, fresh_name: Callable[[], str]
) -> None:
    with sync.Producer(
        bootstrap_servers=bootstrap, transactional_id=fresh_name(), linger_ms=60_000
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"dropped")
        producer.abort_transaction()


def test_many_failures_are_counted(bootstrap: str, topic: str, run: Run) -> None:
    """Failed batches are kept up to a limit; the number of records is right."""

    async def work() -> None:
        await small_topic(bootstrap, topic)
        with pytest.raises(client_errors.UndeliveredError, match="150 records were not delivered"):
            async with Producer(bootstrap_servers=bootstrap, batch_size=10) as producer:
                for _ in range(150):
                    await producer.send(topic, BIG)

    run(work())


def test_statistics(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await small_topic(bootstrap, topic)
        async with Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer:
            await producer.send(topic, b"1234567890")
            waiting = producer.statistics()
            assert (waiting.records_waiting, waiting.records_delivered) == (1, 0)
            assert waiting.bytes_buffered > 0
            await producer.flush()
            refused = await producer.send(topic, BIG)
            await producer.flush()
            assert refused.error is not None
            found = producer.statistics()
            assert (found.records_delivered, found.records_failed, found.batches_delivered) == (1, 1, 1)
            assert (found.records_waiting, found.bytes_buffered, found.requests_in_flight) == (0, 0, 0)
            assert found.bytes_delivered > 10
        async with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.getone()
            statistics = consumer.statistics()
            assert (statistics.records_returned, statistics.total_lag) == (1, 0)
            assert statistics.lag == {TopicPartition(topic, 0): 0}

    run(work())
