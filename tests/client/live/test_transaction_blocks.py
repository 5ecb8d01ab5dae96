"""`with producer.transaction(consumer)`: records and offsets together or not at all, asyncio and blocking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client import Consumer, NewTopic, Producer, TopicPartition, sync
from barnabas.client import errors as client_errors
from tests.client.live.work import Run, make_topic

EARLIEST: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "fetch_max_wait_ms": 50,
}


async def committed_values(bootstrap: str, topic: str, count: int) -> list[bytes]:
    options: dict[str, Any] = {**EARLIEST, "isolation_level": "read_committed"}
    async with Consumer(topic, bootstrap_servers=bootstrap, **options) as consumer:
        return [(await consumer.getone(timeout_ms=60_000)).value for _ in range(count)]


def test_with_a_consumer(
    bootstrap: str, topic: str, group: str, fresh_name: Callable[[], str], run: Run
) -> None:
    """An aborted block has no effect, and its records are read again."""

    async def work() -> None:
        out = fresh_name()
        await make_topic(bootstrap, topic)
        await make_topic(bootstrap, out)
        async with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(3):
                await producer.send_and_wait(topic, b"%d" % number)
        failures = 0
        async with (
            Consumer(topic, bootstrap_servers=bootstrap, group_id=group, **EARLIEST) as consumer,
            Producer(bootstrap_servers=bootstrap, transactional_id=fresh_name()) as producer,
        ):
            done = 0
            while done < 3:
                try:
                    async with producer.transaction(consumer):
                        for record in await consumer.poll(max_records=2):
                            await producer.send(out, record.value)
                            done += 1
                            if failures < 2 and done == 2:
                                raise ZeroDivisionError
                except ZeroDivisionError:
                    failures += 1
                    done = 0
            partition = TopicPartition(topic, 0)
            found = (await consumer.committed([partition]))[partition]
            assert found is not None
            assert found.offset == 3
        assert failures == 2
        assert await committed_values(bootstrap, out, 3) == [b"0", b"1", b"2"]

    run(work())


def test_the_blocking_twin(
    bootstrap: str, topic: str, group: str, fresh_name: Callable[[], str], run: Run
) -> None:
    out = fresh_name()
    with sync.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, 1), NewTopic(out, 1, 1)]).raise_first()
    with sync.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"a").result(60)
    with (
        sync.Consumer(topic, bootstrap_servers=bootstrap, group_id=group, **EARLIEST) as consumer,
        sync.Producer(bootstrap_servers=bootstrap, transactional_id=fresh_name()) as writer,
    ):
        record = consumer.getone(timeout_ms=60_000)
        with pytest.raises(ZeroDivisionError), writer.transaction(consumer):
            writer.send(out, b"never")
            raise ZeroDivisionError
        again = consumer.getmany(60_000)
        assert again == {TopicPartition(topic, 0): [record]}
        with writer.transaction(consumer):
            writer.send(out, record.value)
        with pytest.raises(client_errors.KafkaTimeoutError, match="no record arrived within 50 ms"):
            consumer.getone(timeout_ms=50)
        assert consumer.consumed() == consumer.committed(consumer.assignment())
    assert run(committed_values(bootstrap, out, 1)) == [b"a"]


def test_without_a_transactional_id(bootstrap: str, run: Run) -> None:
    async def work() -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            with pytest.raises(client_errors.InvalidTxnStateError, match=r"transactional\.id"):
                producer.transaction()

    run(work())
