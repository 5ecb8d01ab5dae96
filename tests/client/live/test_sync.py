"""The synchronous face: the same client, waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client import NewTopic, OffsetAndMetadata, RecordMetadata, TopicPartition
from barnabas.client import errors as client_errors
from barnabas.client.sync import Admin, Consumer, Producer

QUICK: dict[str, Any] = {"fetch_max_wait_ms": 50, "auto_offset_reset": "earliest"}


def test_from_a_topic_to_its_records(bootstrap: str, topic: str, group: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)]).raise_first()
        with pytest.raises(client_errors.TopicAlreadyExistsError):
            admin.create_topics([NewTopic(topic, 1, 1)]).raise_first()
    with Producer(bootstrap_servers=bootstrap) as producer:
        deliveries = [producer.send(topic, b"%d" % number) for number in range(500)]
        assert deliveries[-1].result(10).offset == 499
        calls: list[tuple[RecordMetadata | None, Any]] = []
        producer.send(topic, b"last", on_delivery=lambda *metadata: calls.append(metadata))
        producer.flush()
        assert [metadata.offset for metadata, _ in calls if metadata is not None] == [500]
        with pytest.raises(client_errors.RecordTooLargeError):
            producer.send(topic, bytes(2_000_000)).result(10)
    with pytest.raises(client_errors.ClosedError):
        producer.send(topic, b"x")
    with Consumer(bootstrap_servers=bootstrap, group_id=group, **QUICK) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        for number, record in enumerate(consumer):
            assert record.offset == number
            if number == 100:
                consumer.commit()
                break
        assert consumer.committed(consumer.assignment())[TopicPartition(topic, 0)] == OffsetAndMetadata(
            101, 0
        )
        assert consumer.poll()[0].offset == 101
    with pytest.raises(client_errors.ClosedError):
        consumer.poll()


def test_a_listener_may_call_the_consumer(bootstrap: str, topic: str, group: str) -> None:
    class Careful:
        def __init__(self) -> None:
            self.positions: list[int] = []

        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            self.positions.append(consumer.position(partitions[0]))

        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            consumer.commit()

        def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
            raise AssertionError("nothing is lost here")

    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number)
    careful = Careful()
    for first in (0, 10):
        options: dict[str, Any] = {"group_id": group, "enable_auto_commit": False, **QUICK}
        with Consumer(bootstrap_servers=bootstrap, **options) as consumer:
            consumer.subscribe([topic], listener=careful)
            count = first
            while count < 10 or not consumer.assignment():
                count += len(consumer.poll())
    assert careful.positions == [0, 10]


def test_transactions(bootstrap: str, topic: str, fresh_name: Callable[[], str]) -> None:
    with Producer(bootstrap_servers=bootstrap, transactional_id=fresh_name()) as producer:
        producer.init_transactions()
        for commits in (True, False, True):
            producer.begin_transaction()
            for _ in range(10):
                producer.send(topic, b"kept" if commits else b"dropped")
            if commits:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    options: dict[str, Any] = {"isolation_level": "read_committed", **QUICK}
    with Consumer(bootstrap_servers=bootstrap, **options) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[Any] = []
        while len(values) < 20:
            values += [record.value for record in consumer.poll()]
        assert set(values) == {b"kept"}


def test_more_records_than_the_inbox_holds(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, batch_size=100_000) as producer:
        producer.send(topic, b"first").result(10)
        deliveries = [producer.send(topic, b"%d" % number, partition=0) for number in range(30_000)]
        producer.flush()
        assert [one.result().offset for one in (deliveries[0], deliveries[-1])] == [1, 30_000]


def test_every_reason_for_rejecting_a_record_is_reported(bootstrap: str, topic: str) -> None:
    calls: list[Any] = []

    def serialize(value: Any) -> bytes:
        return bytes([1 // value])

    def metadata(_metadata: RecordMetadata | None, error: Exception | None) -> None:
        calls.append(error)
        raise RuntimeError("a failing callback stops no other")

    with Producer(bootstrap_servers=bootstrap, value_serializer=serialize) as producer:
        refused = producer.send(topic, 0, on_delivery=metadata)
        assert producer.send(topic, 1).result(10).offset == 0
        with pytest.raises(ZeroDivisionError):
            refused.result(10)
    (error,) = calls
    assert isinstance(error, client_errors.KafkaError)
    assert "by zero" in error.message


def test_a_producer_that_never_found_its_cluster_closes_in_time_and_reports_every_record() -> None:
    calls: list[Any] = []
    producer = Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=600_000)
    deliveries = [
        producer.send("t", b"x", on_delivery=lambda _, error: calls.append(error)) for _ in range(5)
    ]
    with pytest.raises(client_errors.KafkaTimeoutError, match="5 records are still undelivered"):
        producer.flush(timeout_ms=100)
    producer.close(timeout_ms=100)
    assert [type(error) for error in calls] == [client_errors.KafkaTimeoutError] * 5
    assert all(delivery.done for delivery in deliveries)


def test_a_bad_option_is_refused_at_once(bootstrap: str) -> None:
    with pytest.raises(client_errors.KafkaError, match="acks"):
        Producer(bootstrap_servers=bootstrap, acks="7")
    with pytest.raises(client_errors.KafkaError, match="nonsense"):
        Admin(bootstrap_servers=bootstrap, nonsense=1)  # type: ignore[call-arg]
