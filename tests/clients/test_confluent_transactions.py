"""Transactions as programs use them: librdkafka's transactional producers and read_committed consumers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TIMEOUT_S = 120
QUIET = {"log_level": 0}
END = KafkaError._PARTITION_EOF
# Of the program that consumes and produces: as many at once as do not wait for more.
RECORDS, AT_ONCE = 20, 5


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, **QUIET})


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: Any) -> None:
    options = {name.replace("_", "."): value for name, value in config.items()}
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=options)]).values():
        future.result(TIMEOUT_S)


def producer_of(bootstrap: str, transactional_id: str, **config: Any) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "linger.ms": 0,
            **QUIET,
            **config,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


@contextlib.contextmanager
def consuming(bootstrap: str, **config: Any) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            **QUIET,
            **config,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def read(bootstrap: str, topic: str, **config: Any) -> tuple[list[bytes | None], int]:
    """All that a consumer gets of partition 0, and the offset at which it finds the end."""
    values: list[bytes | None] = []
    with consuming(bootstrap, **config) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while (message := consumer.poll(TIMEOUT_S)) is not None:
            error = message.error()
            if error is not None:
                assert error.code() == END, error
                return values, message.offset() or 0
            values.append(message.value())
    raise AssertionError(f"no end after {len(values)} records")


@pytest.mark.trap
def test_aborted_records_are_not_read(bootstrap: str, topic: str, admin: AdminClient) -> None:
    """Traps 9 and 11: no aborted record is read, also across segments, and the end is reached."""
    # 2 KB segments: each transaction spans some of them.
    create(admin, topic, internal_segment_bytes="2048")
    producer = producer_of(bootstrap, topic, **{"batch.num.messages": 5})
    expected: list[bytes] = []
    for number in range(12):
        producer.begin_transaction()
        rows = [f"{number}-{index}".encode() + bytes(100) for index in range(30)]
        for row in rows:
            producer.produce(topic, row, partition=0)
        producer.flush(TIMEOUT_S)
        if number % 3:
            producer.commit_transaction(TIMEOUT_S)
            expected += rows
        else:
            producer.abort_transaction(TIMEOUT_S)
    assert read(bootstrap, topic) == (expected, 12 * 31)
    everything, _ = read(bootstrap, topic, **{"isolation.level": "read_uncommitted"})
    assert len(everything) == 12 * 30


def test_nothing_of_an_open_transaction_is_read(bootstrap: str, topic: str, admin: AdminClient) -> None:
    create(admin, topic)
    plain = Producer({"bootstrap.servers": bootstrap, **QUIET})
    plain.produce(topic, b"before")
    plain.flush(TIMEOUT_S)
    producer = producer_of(bootstrap, topic)
    producer.begin_transaction()
    producer.produce(topic, b"in it")
    producer.flush(TIMEOUT_S)
    plain.produce(topic, b"after")
    plain.flush(TIMEOUT_S)
    assert read(bootstrap, topic) == ([b"before"], 1)
    producer.commit_transaction(TIMEOUT_S)
    assert read(bootstrap, topic)[0] == [b"before", b"in it", b"after"]


def test_a_second_producer_fences_the_first(bootstrap: str, topic: str, admin: AdminClient) -> None:
    create(admin, topic)
    first = producer_of(bootstrap, topic)
    first.begin_transaction()
    first.produce(topic, b"lost")
    first.flush(TIMEOUT_S)
    second = producer_of(bootstrap, topic)
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(TIMEOUT_S)
    assert fenced.value.args[0].fatal()
    assert fenced.value.args[0].code() == KafkaError._FENCED
    del first
    second.begin_transaction()
    second.produce(topic, b"kept")
    second.commit_transaction(TIMEOUT_S)
    assert read(bootstrap, topic)[0] == [b"kept"]


@pytest.mark.trap
def test_a_time_out_that_is_too_long_is_refused(bootstrap: str, topic: str, admin: AdminClient) -> None:
    """Trap 20: INVALID_TRANSACTION_TIMEOUT."""
    create(admin, topic)
    with pytest.raises(KafkaException) as refused:
        producer_of(bootstrap, topic, **{"transaction.timeout.ms": 900_001})
    assert refused.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


def test_offsets_are_part_of_transactions(bootstrap: str, topic: str, admin: AdminClient) -> None:
    """Consume, transform, produce: each record exactly once, also when some transactions are aborted."""
    source, target = f"{topic}-in", f"{topic}-out"
    create(admin, source)
    create(admin, target)
    plain = Producer({"bootstrap.servers": bootstrap, **QUIET})
    for number in range(RECORDS):
        plain.produce(source, str(number).encode())
    plain.flush(TIMEOUT_S)
    producer = producer_of(bootstrap, topic)
    done = 0
    for attempt in range(100):
        # Like a program that is restarted for each attempt: from the state after the last transaction.
        with consuming(bootstrap, **{"group.id": topic}) as consumer:
            place = TopicPartition(source, 0)
            [found] = consumer.committed([place], TIMEOUT_S)
            done = max(found.offset, 0)
            if done == RECORDS:
                break
            consumer.assign([TopicPartition(source, 0, done)])
            messages = consumer.consume(AT_ONCE, TIMEOUT_S)
            values = [message.value() or b"" for message in messages if message.error() is None]
            producer.begin_transaction()
            for value in values:
                producer.produce(target, value + b"!", partition=0)
            offsets = [TopicPartition(source, 0, done + len(values))]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
        if attempt % 3 == 1:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
    assert done == RECORDS
    assert read(bootstrap, target)[0] == [f"{number}!".encode() for number in range(RECORDS)]
