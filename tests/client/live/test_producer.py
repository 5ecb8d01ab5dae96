"""The producer against a broker.  M-F1, M-F2, M-F3"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.base.hashing import partition_for_key
from barnabas.client import (
    Admin,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    Producer,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
)
from barnabas.client import errors as client_errors
from tests.client.live.work import Run, make_topic, read
from tests.recent import RECENT_MS

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(bootstrap: str, topic: str, run: Run, codec: str) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        async with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
            sent = [
                await producer.send(
                    topic,
                    None if number % 7 == 6 else b"value %d " % number * 20,
                    key=None if number % 5 == 4 else b"k%d" % number,
                    headers={"h": str(number).encode(), "none": None},
                    timestamp_ms=RECENT_MS + number,
                )
                for number in range(300)
            ]
            metadata = [await one for one in sent]
        assert metadata == [RecordMetadata(topic, 0, number, RECENT_MS + number) for number in range(300)]
        for number, record in enumerate(await read(bootstrap, topic, 300)):
            assert (record.offset, record.timestamp) == (number, RECENT_MS + number)
            assert record.key == (None if number % 5 == 4 else b"k%d" % number)
            assert record.value == (None if number % 7 == 6 else b"value %d " % number * 20)
            assert record.headers == (("h", str(number).encode()), ("none", None))

    run(work())


@pytest.mark.parametrize("acks", [0, 1, "all", -1])
def test_acks(bootstrap: str, topic: str, run: Run, acks: Any) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        async with Producer(bootstrap_servers=bootstrap, acks=acks) as producer:
            metadata = [await producer.send_and_wait(topic, b"x") for _ in range(3)]
        assert [entry.offset for entry in metadata] == ([-1, -1, -1] if acks == 0 else [0, 1, 2])
        assert len(await read(bootstrap, topic, 3)) == 3

    run(work())


def test_three_ways_to_learn_the_outcome(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        calls: list[tuple[RecordMetadata | None, Any]] = []
        async with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
            await producer.send(topic, b"forgotten")
            delivery = await producer.send(topic, b"awaited")
            assert (await delivery).offset == 1
            assert delivery.done
            await producer.send(topic, b"called back", on_delivery=lambda *metadata: calls.append(metadata))
            await producer.flush()
        assert [(metadata.offset, error) for metadata, error in calls if metadata is not None] == [(2, None)]

    run(work())


def test_the_first_record_creates_its_topic(bootstrap: str, topic: str, run: Run) -> None:
    # M-A3
    async def work() -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            assert (await producer.send_and_wait(topic, b"first")).offset == 0

    run(work())


def test_keys_decide_as_in_the_java_client(bootstrap: str, topic: str, run: Run) -> None:
    # M-A8
    async def work() -> None:
        await make_topic(bootstrap, topic, 6)
        async with Producer(bootstrap_servers=bootstrap) as producer:
            keys = [b"key-%d" % number for number in range(50)]
            metadata = [await (await producer.send(topic, b"x", key)) for key in keys]
        assert [entry.partition for entry in metadata] == [partition_for_key(key, 6) for key in keys]

    run(work())


def test_records_without_key_reach_all_partitions(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic, 3)
        async with Producer(bootstrap_servers=bootstrap, batch_size=500, linger_ms=0) as producer:
            sent = [await producer.send(topic, b"x" * 50) for _ in range(600)]
            used = [(await one).partition for one in sent]
        assert set(used) == {0, 1, 2}
        changes = sum(one != other for one, other in itertools.pairwise(used))
        assert changes < 300, "records stick to a partition for a batch"

    run(work())


def test_round_robin_and_a_partitioner_of_ones_own(bootstrap: str, topic: str, run: Run) -> None:
    class LastOne:
        settings: Any = None
        is_closed = False

        def configure(self, settings: Any) -> None:
            self.settings = settings

        def partition(
            self, topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, layout: Any
        ) -> int:
            return len(layout.partitions) - 1

        def close(self) -> None:
            self.is_closed = True

    async def work() -> None:
        await make_topic(bootstrap, topic, 3)
        async with Producer(bootstrap_servers=bootstrap, partitioner_class="round_robin") as producer:
            metadata = [await producer.send_and_wait(topic, b"x", b"same key") for _ in range(6)]
        assert [entry.partition for entry in metadata] == [0, 1, 2, 0, 1, 2]
        own = LastOne()
        async with Producer(bootstrap_servers=bootstrap, partitioner_class=own) as producer:
            assert (await producer.send_and_wait(topic, b"x")).partition == 2
        assert own.settings["acks"] == "all"
        assert own.is_closed

    run(work())


def test_interceptors_and_serialisers(bootstrap: str, topic: str, run: Run) -> None:
    # M-F1
    class Watch:
        def __init__(self) -> None:
            self.acknowledged: list[int] = []

        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return ProducerRecord(record.topic, record.value.upper(), record.key, record.partition)

        def on_acknowledgement(self, metadata: RecordMetadata | None, error: Any) -> None:
            assert metadata is not None
            self.acknowledged.append(metadata.offset)

    class Broken:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise RuntimeError("its own fault stops no other")

    async def work() -> None:
        await make_topic(bootstrap, topic)
        watch = Watch()
        options: dict[str, Any] = {
            "key_serializer": lambda number: number.to_bytes(4, "big"),
            "value_serializer": "org.apache.kafka.common.serialization.StringSerializer",
            "interceptor_classes": [Broken, watch],
        }
        async with Producer(bootstrap_servers=bootstrap, **options) as producer:
            await producer.send_and_wait(topic, "text", 7)
        assert watch.acknowledged == [0]
        (record,) = await read(bootstrap, topic, 1, value_deserializer="String")
        assert (record.key, record.value) == (b"\0\0\0\7", "TEXT")

    run(work())


def test_what_cannot_be_sent_says_why(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        async with Producer(bootstrap_servers=bootstrap, max_block_ms=500) as producer:
            with pytest.raises(client_errors.RecordTooLargeError, match=r"max\.request\.size"):
                await producer.send(topic, bytes(2_000_000))
            with pytest.raises(TypeError, match="value_serializer"):
                await producer.send(topic, "text")  # type: ignore[arg-type]
            with pytest.raises(client_errors.KafkaTimeoutError, match="no partition 9"):
                await producer.send(topic, b"x", partition=9)
            with pytest.raises(client_errors.KafkaError, match="no/such"):
                await producer.send("no/such", b"x")
            assert (await producer.send_and_wait(topic, b"x")).offset == 0
            # Also with an open batch, the short way.
            await producer.send(topic, b"y")
            with pytest.raises(TypeError, match="value_serializer"):
                await producer.send(topic, "text")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="key_serializer"):
                await producer.send(topic, b"z", 7)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="header"):
                await producer.send(topic, b"z", headers=(("name", "text"),))  # type: ignore[arg-type]
        with pytest.raises(client_errors.ClosedError):
            await producer.send(topic, b"x")

    run(work())


def test_a_record_that_the_topic_finds_too_large(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic, max_message_bytes="1000")
        async with Producer(bootstrap_servers=bootstrap) as producer:
            with pytest.raises(client_errors.MessageTooLargeError):
                await producer.send_and_wait(topic, bytes(2000))
            assert (await producer.send_and_wait(topic, b"small")).offset == 0

    run(work())


def test_a_batch_that_the_topic_finds_too_large_is_split(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic, max_message_bytes="1000")
        async with Producer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
            sent = [await producer.send(topic, b"%03d" % number * 30) for number in range(50)]
            assert [(await one).offset for one in sent] == list(range(50))
            assert (await producer.send_and_wait(topic, b"after")).offset == 50
        values = [record.value for record in await read(bootstrap, topic, 51)]
        assert values == [b"%03d" % number * 30 for number in range(50)] + [b"after"]

    run(work())


def test_little_memory_slows_down_and_loses_nothing(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        options: dict[str, Any] = {"buffer_memory": 20_000, "batch_size": 4_000, "linger_ms": 50}
        async with Producer(bootstrap_servers=bootstrap, **options) as producer:
            most = 0
            sent = []
            for number in range(1000):
                sent.append(await producer.send(topic, b"%04d" % number * 20))
                most = max(most, producer._accumulator.used_bytes)
            assert most <= 20_000
            assert [(await one).offset for one in sent] == list(range(1000))

    run(work())


def test_no_memory_in_time(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        options: dict[str, Any] = {"buffer_memory": 8_000, "batch_size": 4_000, "max_block_ms": 100}
        producer = Producer(bootstrap_servers=bootstrap, **options)
        await producer.partitions_for(topic)
        # Nothing leaves the queues, as if the broker took nothing.
        producer._sender._is_closed = True
        with pytest.raises(client_errors.BufferExhaustedError, match="8000"):
            for _ in range(10):
                await producer.send(topic, bytes(3_000))
        with pytest.raises(client_errors.BufferExhaustedError):
            producer.send_nowait(topic, bytes(3_000))
        await producer.close(timeout_ms=0)

    run(work())


def test_closing_sends_what_waits(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        producer = Producer(bootstrap_servers=bootstrap, linger_ms=60_000, delivery_timeout_ms=200_000)
        sent = [await producer.send(topic, b"x") for _ in range(10)]
        assert not sent[-1].done
        await producer.close()
        assert [one.metadata.offset for one in sent] == list(range(10))

    run(work())


def test_order_is_kept_by_many_small_batches_in_flight(bootstrap: str, topic: str, run: Run) -> None:
    # M-A8
    async def work() -> None:
        await make_topic(bootstrap, topic)
        async with Producer(bootstrap_servers=bootstrap, batch_size=200, linger_ms=0) as producer:
            for number in range(2000):
                await producer.send(topic, b"%d" % number)
        values = [record.value for record in await read(bootstrap, topic, 2000)]
        assert values == [b"%d" % number for number in range(2000)]

    run(work())


def test_transactions_commit_and_abort(
    bootstrap: str, topic: str, fresh_name: Callable[[], str], run: Run
) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic, 2)
        async with Producer(bootstrap_servers=bootstrap, transactional_id=fresh_name()) as producer:
            with pytest.raises(client_errors.InvalidTxnStateError, match="init_transactions"):
                producer.begin_transaction()
            await producer.init_transactions()
            with pytest.raises(client_errors.InvalidTxnStateError, match="no transaction is open"):
                await producer.send(topic, b"outside")
            for number in range(4):
                producer.begin_transaction()
                for partition in (0, 1):
                    await producer.send(topic, b"%d" % number, partition=partition)
                await producer.flush()
                if number % 2:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
            producer.begin_transaction()
            await producer.commit_transaction()
        committed = await read(bootstrap, topic, 4, 2, isolation_level="read_committed")
        assert sorted(str(record.value) for record in committed) == ["b'0'", "b'0'", "b'2'", "b'2'"]
        assert len(await read(bootstrap, topic, 8, 2)) == 8

    run(work())


def test_a_newer_producer_fences_the_older(
    bootstrap: str, topic: str, fresh_name: Callable[[], str], run: Run
) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        name = fresh_name()
        older = Producer(bootstrap_servers=bootstrap, transactional_id=name)
        await older.init_transactions()
        older.begin_transaction()
        await older.send_and_wait(topic, b"older")
        async with Producer(bootstrap_servers=bootstrap, transactional_id=name) as newer:
            await newer.init_transactions()
            with pytest.raises(client_errors.ProducerFencedError):
                await older.commit_transaction()
            with pytest.raises(client_errors.ProducerFencedError):
                await older.send(topic, b"no more")
            newer.begin_transaction()
            await newer.send(topic, b"newer")
            await newer.commit_transaction()
        await older.close()
        (record,) = await read(bootstrap, topic, 1, isolation_level="read_committed")
        assert record.value == b"newer"

    run(work())


def test_offsets_are_a_part_of_a_transaction(
    bootstrap: str, topic: str, group: str, fresh_name: Callable[[], str], run: Run
) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        partition = TopicPartition(topic, 0)
        async with (
            Admin(bootstrap_servers=bootstrap) as admin,
            Producer(bootstrap_servers=bootstrap, transactional_id=fresh_name()) as producer,
        ):
            await producer.init_transactions()
            for offset, commits in ((5, True), (9, False)):
                producer.begin_transaction()
                await producer.send(topic, b"x")
                await producer.send_offsets_to_transaction(
                    {partition: OffsetAndMetadata(offset)}, ConsumerGroupMetadata(group)
                )
                await (producer.commit_transaction() if commits else producer.abort_transaction())
            found = (await admin.list_consumer_group_offsets({group: [partition]}, require_stable=True))[
                group
            ]
            position = found[partition]
            assert position is not None
            assert position.offset == 5

    run(work())


def test_many_tasks_share_a_producer(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic, 3)
        async with Producer(bootstrap_servers=bootstrap) as producer:

            async def one(number: int) -> int:
                return (await producer.send_and_wait(topic, b"x", b"%d" % number)).offset

            await asyncio.gather(*(one(number) for number in range(500)))
        assert len(await read(bootstrap, topic, 500, 3)) == 500

    run(work())
