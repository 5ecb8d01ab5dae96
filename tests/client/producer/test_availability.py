"""KIP-794: partitions of unavailable brokers are skipped (partitioner.availability.timeout.ms)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client import Producer
from barnabas.client.model import Partition, Topic
from barnabas.client.options import producer_options
from barnabas.client.producer.accumulator import Accumulator
from barnabas.client.producer.availability import BrokerAvailability
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.runtime.random import SeededRandom
from tests.client.live.work import until
from tests.client.scripted import NODE_ID, TOPIC, scripted

Run = Callable[[Any], Any]
PATIENT, HASTY = 1, 2


def settings(**options: Any) -> Any:
    return producer_options(None, {"bootstrap_servers": "a:1", **options})


def availability(**options: Any) -> BrokerAvailability:
    return BrokerAvailability(settings(**options))


def test_a_broker_is_passed_over_after_the_time_out_and_not_before() -> None:
    found = availability(partitioner_availability_timeout_ms=1000)
    assert found.is_available(PATIENT), "it was not tried yet"
    found.note(PATIENT, 10.0, can_send=False)
    assert found.is_available(PATIENT), "it has only just been met"
    found.note(PATIENT, 11.0, can_send=False)
    assert found.is_available(PATIENT)
    found.note(PATIENT, 11.5, can_send=False)
    assert not found.is_available(PATIENT)
    assert found.is_available(HASTY), "the others are not its fault"
    found.note(PATIENT, 12.0, can_send=True)
    assert found.is_available(PATIENT)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"partitioner_availability_timeout_ms": 1000, "partitioner_adaptive_partitioning_enable": False},
    ],
)
def test_by_default_no_broker_is_passed_over(options: Any) -> None:
    found = availability(**options)
    found.note(PATIENT, 0.0, can_send=True)
    found.note(PATIENT, 1e6, can_send=False)
    assert found.is_available(PATIENT)


def layout(*leaders: int) -> Topic:
    partitions = tuple(
        Partition(TOPIC, number, leader, 0, (leader,), (leader,)) for number, leader in enumerate(leaders)
    )
    return Topic(
        TOPIC, partitions=partitions, partition_of={partition.number: partition for partition in partitions}
    )


def test_the_sticky_choice_skips_unavailable_brokers(run: Run) -> None:
    async def work() -> None:
        accumulator = Accumulator(settings(partitioner_availability_timeout_ms=1000), SeededRandom(1))
        topic = accumulator.topic(layout(PATIENT, HASTY, PATIENT, HASTY))

        def chosen() -> set[int]:
            found = set()
            for _ in range(200):
                accumulator._switch_sticky(topic)
                found.add(topic.sticky.topic_partition.partition)
            return found

        assert chosen() == {0, 1, 2, 3}
        accumulator.availability.note(PATIENT, 0.0, can_send=True)
        accumulator.availability.note(PATIENT, 2.0, can_send=False)
        assert chosen() == {1, 3}
        accumulator.availability.note(HASTY, 0.0, can_send=True)
        accumulator.availability.note(HASTY, 2.0, can_send=False)
        assert chosen() == {0, 1, 2, 3}, "without available brokers any partition is chosen"

    run(work())


def test_a_partition_without_a_leader_is_not_chosen(run: Run) -> None:
    async def work() -> None:
        accumulator = Accumulator(settings(), SeededRandom(1))
        topic = accumulator.topic(layout(-1, HASTY, -1))
        for _ in range(100):
            accumulator._switch_sticky(topic)
            assert topic.sticky.topic_partition.partition == 1

    run(work())


def test_the_sender_notes_what_it_cannot_send(run: Run) -> None:
    """The option was announced and never read."""

    async def work() -> None:
        options: dict[str, Any] = {
            "partitioner_availability_timeout_ms": 50,
            "max_in_flight_requests_per_connection": 1,
            "batch_size": 1,
            "linger_ms": 0,
        }
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
            found = producer._accumulator.availability
            await producer.send_and_wait(TOPIC, b"x")
            assert found.is_available(NODE_ID)
            usual = broker.handlers[ProduceRequest]
            broker.handlers[ProduceRequest] = lambda *_: None

            async def is_passed_over() -> bool:
                await producer.send(TOPIC, b"x")
                return not found.is_available(NODE_ID)

            await until(is_passed_over)
            broker.handlers[ProduceRequest] = usual
            broker.hang_up()
            await producer.flush()
            await producer.send_and_wait(TOPIC, b"x")
            assert found.is_available(NODE_ID)

    run(work())
