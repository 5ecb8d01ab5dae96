"""kafka-python: a client in plain Python."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests.recent import RECENT_MS

with warnings.catch_warnings():
    # It loads its own files in a way that Python does not like any more.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient, NewPartitions, NewTopic
    from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TIMEOUT_S = 120
CODECS = (None, "gzip", "snappy", "lz4", "zstd")


@contextlib.contextmanager
def closing(client: Any) -> Iterator[Any]:
    try:
        yield client
    finally:
        client.close()


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        yield admin


def read(bootstrap: str, topic: str, count: int, partition: int = 0) -> list[Any]:
    place = TopicPartition(topic, partition)
    results: list[Any] = []
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, fetch_max_wait_ms=50)) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        for _ in range(TIMEOUT_S * 10):
            for records in consumer.poll(100).values():
                results.extend(records)
            if len(results) >= count:
                return results
    raise AssertionError(f"{len(results)} of {count} records came")


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(bootstrap: str, topic: str, codec: str | None) -> None:
    with closing(
        KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=10)
    ) as producer:
        sent = [
            producer.send(
                topic,
                key=f"k{number}".encode() if number % 2 else None,
                value=f"value {number} ".encode() * 10,
                headers=[("h", str(number).encode())],
                timestamp_ms=RECENT_MS + number,
                partition=0,
            )
            for number in range(100)
        ]
        assert [future.get(TIMEOUT_S).offset for future in sent] == list(range(100))
    for number, record in enumerate(read(bootstrap, topic, 100)):
        assert record.offset == number
        assert record.key == (f"k{number}".encode() if number % 2 else None)
        assert record.value == f"value {number} ".encode() * 10
        assert list(record.headers) == [("h", str(number).encode())]
        assert record.timestamp == RECENT_MS + number


def test_offsets_by_time_and_at_the_ends(bootstrap: str, topic: str) -> None:
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for number in range(10):
            producer.send(topic, b"x", partition=0, timestamp_ms=RECENT_MS + number * 100)
        producer.flush(TIMEOUT_S)
    place = TopicPartition(topic, 0)
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)) as consumer:
        assert consumer.beginning_offsets([place]) == {place: 0}
        assert consumer.end_offsets([place]) == {place: 10}
        found = consumer.offsets_for_times({place: RECENT_MS + 450})[place]
        assert (found.offset, found.timestamp) == (5, RECENT_MS + 500)


def test_a_record_that_is_too_large(bootstrap: str, topic: str) -> None:
    large = KafkaProducer(bootstrap_servers=bootstrap, max_request_size=5_000_000)
    with closing(large) as producer, pytest.raises(MessageSizeTooLargeError):
        producer.send(topic, bytes(2_000_000), partition=0).get(TIMEOUT_S)


def test_topics(topic: str, admin: KafkaAdminClient) -> None:
    admin.create_topics([NewTopic(topic, 2, 1)])
    assert topic in admin.list_topics()
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 2
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, 2, 1)])
    admin.create_partitions({topic: NewPartitions(5)})
    assert len(admin.describe_topics([topic])[0]["partitions"]) == 5
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()


def test_the_cluster(admin: KafkaAdminClient) -> None:
    cluster = admin.describe_cluster()
    assert [broker["broker_id"] for broker in cluster["brokers"]] == [1]
    quorum = admin.describe_metadata_quorum()
    assert quorum
