"""The consumer against a broker, without a group's plan.  M-G4"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from barnabas.client import errors as client_errors
from tests.client.live.work import Run, fill, make_topic, offsets, read, take, until
from tests.recent import RECENT_MS

NUMBERS = [b"%d" % number for number in range(100)]
QUICK: dict[str, Any] = {"fetch_max_wait_ms": 50}


def test_seeking(bootstrap: str, topic: str, run: Run) -> None:
    # M-A5, M-G4
    async def work() -> None:
        await make_topic(bootstrap, topic)
        async with Producer(bootstrap_servers=bootstrap) as producer:
            for number, value in enumerate(NUMBERS):
                await producer.send(topic, value, timestamp_ms=RECENT_MS + number)
        partition = TopicPartition(topic, 0)
        async with Consumer(bootstrap_servers=bootstrap, **QUICK) as consumer:
            consumer.assign([partition])

            async def next_offset() -> int:
                offset: int = (await take_some(consumer))[0].offset
                return offset

            consumer.seek(partition, 40)
            assert await next_offset() == 40
            consumer.seek_to_beginning()
            assert await next_offset() == 0
            consumer.seek_to_time(RECENT_MS + 77, partition)
            assert await next_offset() == 77
            consumer.seek_to_end(partition)
            assert await consumer.position(partition) == 100
            consumer.seek(partition, OffsetAndMetadata(99))
            assert await next_offset() == 99
            assert await consumer.position(partition) == 100
            assert consumer.current_lag(partition) == 0
            with pytest.raises(ValueError, match="cannot be -1"):
                consumer.seek(partition, -1)
            with pytest.raises(ValueError, match="not assigned"):
                consumer.seek(TopicPartition(topic, 1), 0)
            found = await consumer.offsets_for_times({partition: RECENT_MS + 50})
            position = found[partition]
            assert position is not None
            assert position.offset == 50
            assert await consumer.offsets_for_times({partition: 1_900_000_000_000}) == {partition: None}
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 100}

    run(work())


async def take_some(consumer: Consumer) -> list[Any]:
    for _ in range(100):
        records = await consumer.poll(200)
        if records:
            return records
    raise AssertionError("no record came")


@pytest.mark.parametrize(("policy", "first"), [("earliest", 0), ("latest", 100), ("by_duration:P9999D", 0)])
def test_where_to_start(bootstrap: str, topic: str, run: Run, policy: str, first: int) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        await fill(bootstrap, topic, list(NUMBERS))
        partition = TopicPartition(topic, 0)
        async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset=policy, **QUICK) as consumer:
            consumer.assign([partition])
            assert await consumer.position(partition) == first
            consumer.seek(partition, 12345)
            await until(lambda: _is_at(consumer, partition, first))

    run(work())


async def _is_at(consumer: Consumer, partition: TopicPartition, offset: int) -> bool:
    await consumer.poll(50, max_records=1)
    return await consumer.position(partition) in (offset, offset + 1)


def test_without_a_reset_policy_an_error_is_raised(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        partition = TopicPartition(topic, 0)
        async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="none", **QUICK) as consumer:
            consumer.assign([partition])
            with pytest.raises(client_errors.NoOffsetForPartitionError):
                await consumer.poll()
            consumer.seek(partition, 12345)
            with pytest.raises(client_errors.OffsetOutOfRangeError, match="12345"):
                await take_some(consumer)
            consumer.seek(partition, 0)
            assert await consumer.poll(100) == []

    run(work())


def test_pausing(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic, 2)
        async with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(20):
                await producer.send(topic, b"x", partition=number % 2)
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **QUICK) as consumer:
            consumer.assign([first, second])
            consumer.pause(first)
            assert consumer.paused() == {first}
            assert {one.partition for one in await take(consumer, 10)} == {1}
            assert await consumer.poll(100) == []
            consumer.resume(first)
            assert {one.partition for one in await take(consumer, 10)} == {0}

    run(work())


def test_a_poll_returns_at_most_max_records(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        await fill(bootstrap, topic, list(NUMBERS))
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "max_poll_records": 30, **QUICK}
        async with Consumer(bootstrap_servers=bootstrap, **options) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            sizes = [len(await take_some(consumer)) for _ in range(2)]
            assert sizes == [30, 30]
            assert len(await consumer.poll(1000, max_records=7)) == 7
            assert [one.offset for one in await consumer.poll(1000)] == list(range(67, 97))

    run(work())


def test_committing_while_iterating(bootstrap: str, topic: str, group: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        await fill(bootstrap, topic, list(NUMBERS))
        partition = TopicPartition(topic, 0)
        options: dict[str, Any] = {"group_id": group, "auto_offset_reset": "earliest", **QUICK}
        async with Consumer(bootstrap_servers=bootstrap, enable_auto_commit=False, **options) as consumer:
            consumer.assign([partition])
            seen = []
            async for record in consumer:
                seen.append(record.offset)
                if len(seen) == 10:
                    await consumer.commit()
                    assert offsets(await consumer.committed([partition])) == {0: 10}
                    break
            # Another loop, or a poll, continues where the first one ended.
            async for record in consumer:
                assert record.offset == 10
                break
            assert (await consumer.poll())[0].offset == 11
            assert await consumer.position(partition) == 100
        async with Consumer(bootstrap_servers=bootstrap, **options) as consumer:
            consumer.assign([partition])
            assert (await take_some(consumer))[0].offset == 10
        # That one committed when it was closed.
        async with Consumer(bootstrap_servers=bootstrap, **options) as consumer:
            assert offsets(await consumer.committed([partition])) == {0: 100}

    run(work())


def test_commits_by_hand(bootstrap: str, topic: str, group: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        partition = TopicPartition(topic, 0)
        calls: list[Any] = []
        async with Consumer(bootstrap_servers=bootstrap, group_id=group, **QUICK) as consumer:
            consumer.assign([partition])
            assert await consumer.committed([partition]) == {partition: None}
            await consumer.commit({partition: OffsetAndMetadata(3, metadata="note")})
            found = (await consumer.committed([partition]))[partition]
            assert found == OffsetAndMetadata(3, -1, "note")
            consumer.commit_async(
                {partition: 4}, lambda metadata, error: calls.append((metadata[partition].offset, error))
            )
            await until(lambda: bool(calls))
            assert calls == [(4, None)]
        async with Consumer(bootstrap_servers=bootstrap) as loner:
            with pytest.raises(client_errors.InvalidGroupIdError, match=r"group\.id"):
                await loner.commit({partition: 1})

    run(work())


def test_commits_happen_by_themselves(bootstrap: str, topic: str, group: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        await fill(bootstrap, topic, list(NUMBERS))
        partition = TopicPartition(topic, 0)
        options: dict[str, Any] = {
            "group_id": group,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 50,
            **QUICK,
        }
        async with Consumer(bootstrap_servers=bootstrap, **options) as consumer:
            consumer.assign([partition])
            await take(consumer, 100)

            async def is_committed() -> bool:
                await consumer.poll(20)
                return offsets(await consumer.committed([partition])) == {0: 100}

            await until(is_committed)

    run(work())


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_aborted_records_are_not_seen(
    bootstrap: str, topic: str, fresh_name: Callable[[], str], run: Run, codec: str
) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        settings: dict[str, Any] = {"compression_type": codec, "batch_size": 200, "linger_ms": 0}
        one = Producer(bootstrap_servers=bootstrap, transactional_id=fresh_name(), **settings)
        other = Producer(bootstrap_servers=bootstrap, transactional_id=fresh_name(), **settings)
        for producer in (one, other):
            await producer.init_transactions()
        # Two transactions side by side, one of which is aborted, in several rounds.
        for _ in range(3):
            one.begin_transaction()
            other.begin_transaction()
            for _ in range(20):
                await one.send_and_wait(topic, b"kept")
                await other.send_and_wait(topic, b"dropped")
            await other.abort_transaction()
            await one.commit_transaction()
        one.begin_transaction()
        await one.send_and_wait(topic, b"open")
        values = [
            record.value for record in await read(bootstrap, topic, 60, isolation_level="read_committed")
        ]
        assert set(values) == {b"kept"}
        partition = TopicPartition(topic, 0)
        async with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
            stable = (await consumer.end_offsets([partition]))[partition]
            consumer.assign([partition])
            consumer.seek_to_beginning()
            await take(consumer, 60)

            async def has_reached_the_end() -> bool:
                return await consumer.poll(50) == [] and await consumer.position(partition) == stable

            # Control records and what was aborted at the end are passed over: lag reaches 0.
            await until(has_reached_the_end)
            assert consumer.current_lag(partition) == 0
        await one.abort_transaction()
        await one.close()
        await other.close()

    run(work())


def test_deserialisers_and_a_record_that_they_cannot_read(bootstrap: str, topic: str, run: Run) -> None:
    class Shout:
        def on_consume(self, records: list[Any]) -> list[Any]:
            for record in records:
                record.value += "!"
            return records

    async def work() -> None:
        await make_topic(bootstrap, topic)
        await fill(bootstrap, topic, [b"one", b"two", b"\xff", b"four"])
        options: dict[str, Any] = {
            "auto_offset_reset": "earliest",
            "value_deserializer": "String",
            "interceptor_classes": [Shout()],
            **QUICK,
        }
        partition = TopicPartition(topic, 0)
        async with Consumer(bootstrap_servers=bootstrap, **options) as consumer:
            consumer.assign([partition])
            assert [record.value for record in await take_some(consumer)] == ["one!", "two!"]
            assert await consumer.position(partition) == 2
            for _ in range(2):
                with pytest.raises(client_errors.RecordDeserializationError, match="offset 2"):
                    await consumer.poll()
            consumer.seek(partition, 3)
            assert [record.value for record in await take_some(consumer)] == ["four!"]

    run(work())


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_arrow_batches(bootstrap: str, topic: str, run: Run, codec: str) -> None:
    pytest.importorskip("pyarrow")

    async def work() -> None:
        await make_topic(bootstrap, topic)
        async with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
            for number in range(200):
                key = None if number % 2 else b"k%d" % number
                value = None if number % 10 == 9 else b"v" * (number % 50)
                headers = [("n", b"%d" % number)] if number % 3 == 0 else []
                await producer.send(topic, value, key, headers=headers, timestamp_ms=RECENT_MS + number)
        options: dict[str, Any] = {"auto_offset_reset": "earliest", **QUICK}
        async with Consumer(bootstrap_servers=bootstrap, **options) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            plain = [(await consumer.poll(1000, max_records=1))[0] for _ in range(3)]
            assert [record.offset for record in plain] == [0, 1, 2]
            rows: list[dict[str, Any]] = []
            while len(rows) < 197:
                batch = await consumer.poll_arrow(2000, include_headers=True)
                assert batch is not None
                rows += batch.to_pylist()
            assert await consumer.poll_arrow(50) is None
        records = (await read(bootstrap, topic, 200))[3:]
        assert len(rows) == 197
        for row, record in zip(rows, records, strict=True):
            assert (row["topic"], row["partition"], row["offset"]) == (topic, 0, record.offset)
            assert (row["key"], row["value"]) == (record.key, record.value)
            assert row["timestamp"].timestamp() * 1000 == pytest.approx(record.timestamp)
            assert [(one["key"], one["value"]) for one in row["headers"]] == list(record.headers)

    run(work())


def test_large_records(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic, max_message_bytes="4000000")
        values: list[bytes | None] = [bytes([number]) * 1_500_000 for number in range(4)]
        await fill(bootstrap, topic, values, max_request_size=4_000_000)
        assert [one.value for one in await read(bootstrap, topic, 4)] == values

    run(work())


def test_calls_that_make_no_sense(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        async with Consumer(bootstrap_servers=bootstrap) as consumer:
            with pytest.raises(RuntimeError, match="subscribe"):
                await consumer.poll()
            with pytest.raises(client_errors.InvalidGroupIdError):
                consumer.subscribe([topic])
            consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(client_errors.ClosedError):
            await consumer.poll()

    run(work())


def test_a_poll_is_woken(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        async with Consumer(bootstrap_servers=bootstrap) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            asyncio.get_running_loop().call_later(0.2, consumer.wakeup)
            assert await consumer.poll(3_600_000) == []

    run(work())


def test_topics_and_partitions(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic, 3)
        async with Consumer(bootstrap_servers=bootstrap) as consumer, Admin(bootstrap_servers=bootstrap):
            assert [one.number for one in await consumer.partitions_for(topic)] == [0, 1, 2]
            assert topic in await consumer.list_topics()
            with pytest.raises(client_errors.KafkaError):
                await consumer.partitions_for("nobody", timeout_ms=300)

    run(work())
