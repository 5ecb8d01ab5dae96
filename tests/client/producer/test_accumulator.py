"""Queues, memory and turns of a producer, without a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client import errors as client_errors
from barnabas.client.options import producer_options
from barnabas.client.producer.accumulator import Accumulator, PartitionQueue
from barnabas.client.producer.batches import ProducerBatch
from barnabas.client.retries import Deadline
from barnabas.runtime.random import SeededRandom
from tests.client.producer.test_availability import layout
from tests.client.scripted import TOPIC

Run = Callable[[Any], Any]
BATCH_BYTES = 1000
PATIENT_MS = 60_000


def made(**options: Any) -> Accumulator:
    given = {"bootstrap_servers": "a:1", "batch_size": BATCH_BYTES, "linger_ms": 30_000, **options}
    return Accumulator(producer_options(None, given), SeededRandom(1))


def batch(*serial: int) -> ProducerBatch:
    return ProducerBatch(TOPIC, 0, BATCH_BYTES, BATCH_BYTES, 0.0, serial=serial)


def test_what_is_put_back_stands_where_it_was(run: Run) -> None:
    """In any order of completion, with the parts of a split batch between its neighbours."""

    async def work() -> None:
        partition_queue: PartitionQueue = made().topic(layout(1)).queues[0]
        for one in (batch(3), batch(1), batch(4), batch(2, 1), batch(2, 0)):
            partition_queue.put_back(one)
        assert [one.serial for one in partition_queue.queue] == [(1,), (2, 0), (2, 1), (3,), (4,)]

    run(work())


def test_a_batch_releases_its_memory_once(run: Run) -> None:
    async def work() -> None:
        accumulator = made()
        partition_queue = accumulator.topic(layout(1)).queues[0]
        first = accumulator.open_batch(partition_queue, 10)
        accumulator.open_batch(partition_queue, 10)
        assert accumulator.used_bytes == 2 * BATCH_BYTES
        accumulator.release(first)
        accumulator.release(first)
        assert accumulator.used_bytes == BATCH_BYTES

    run(work())


def test_a_large_record_is_charged_as_a_whole(run: Run) -> None:
    async def work() -> None:
        accumulator = made()
        partition_queue = accumulator.topic(layout(1)).queues[0]
        accumulator.open_batch(partition_queue, 5 * BATCH_BYTES)
        assert accumulator.used_bytes == 5 * BATCH_BYTES

    run(work())


def test_waiting_senders_get_memory_in_order(run: Run) -> None:
    async def work() -> None:
        accumulator = made(buffer_memory=2 * BATCH_BYTES)
        partition_queue = accumulator.topic(layout(1)).queues[0]
        full = [accumulator.open_batch(partition_queue, 10) for _ in range(2)]
        assert not accumulator.has_memory(10)
        turns: list[int] = []

        async def wait(number: int) -> None:
            await accumulator.wait_for_memory(10, Deadline(PATIENT_MS))
            accumulator.open_batch(partition_queue, 10)
            turns.append(number)

        waiting = [asyncio.ensure_future(wait(number)) for number in range(3)]
        await asyncio.sleep(0)
        # Both in one turn of the loop: the second finds the first waiter called already.
        for one in full:
            accumulator.release(one)
        async with asyncio.timeout(PATIENT_MS / 1000):
            await asyncio.gather(*waiting[:2])
        assert turns == [0, 1]
        assert not accumulator.has_memory(10), "a sender still waits"
        accumulator.release(next(iter(accumulator.incomplete)))
        await waiting[2]
        assert turns == [0, 1, 2]

    run(work())


def test_a_memory_timeout_reports_the_usage(run: Run) -> None:
    async def work() -> None:
        accumulator = made(buffer_memory=BATCH_BYTES)
        partition_queue = accumulator.topic(layout(1)).queues[0]
        full = accumulator.open_batch(partition_queue, 10)
        with pytest.raises(client_errors.BufferExhaustedError, match="1000 of 1000 bytes are in use"):
            await accumulator.wait_for_memory(10, Deadline(1))
        assert partition_queue.due, "what fills the memory does not linger"
        accumulator.release(full)
        assert accumulator.has_memory(10), "a sender that timed out blocks no other"

    run(work())


def test_a_topic_sticks_to_a_partition_for_a_batch_of_bytes(run: Run) -> None:
    async def work() -> None:
        accumulator = made(partitioner_adaptive_partitioning_enable=False)
        topic = accumulator.topic(layout(1, 1, 1))
        first = topic.sticky
        opened = accumulator.open_batch(first, 10)
        for _ in range(4):
            opened.append(0, None, bytes(100), ())
        accumulator.close_batch(first)
        assert topic.sticky is first, "not yet a batch full of bytes"
        opened = accumulator.open_batch(first, 10)
        for _ in range(6):
            opened.append(0, None, bytes(100), ())
        accumulator.close_batch(first)
        assert topic.sticky is not first

    run(work())


def test_a_flush_ends_the_lingering_of_every_open_batch(run: Run) -> None:
    async def work() -> None:
        accumulator = made()
        queues = accumulator.topic(layout(1, 1)).queues
        for partition_queue in queues:
            accumulator.open_batch(partition_queue, 10)
        assert not accumulator.sendable
        accumulator.make_all_due()
        assert [partition_queue.due for partition_queue in queues] == [True, True]
        assert list(accumulator.sendable) == queues

    run(work())


def test_a_topic_is_idle_when_nothing_was_sent_for_long_and_nothing_is_left(run: Run) -> None:
    async def work() -> None:
        accumulator = made()
        topic = accumulator.topic(layout(1))
        partition_queue = topic.queues[0]
        opened = accumulator.open_batch(partition_queue, 10)
        now_s = asyncio.get_running_loop().time()
        assert not accumulator.is_idle(topic, 60.0)
        topic.used_at = now_s - 100.0
        assert not accumulator.is_idle(topic, 60.0), "a record waits"
        partition_queue.queue.remove(opened)
        assert accumulator.is_idle(topic, 60.0)
        assert not accumulator.is_idle(topic, 200.0)

    run(work())
