"""librdkafka through confluent-kafka: what most programs outside the JVM use."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.recent import RECENT_MS

TIMEOUT_S = 120
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# librdkafka's output on stderr about stopped brokers is not part of the tests.
QUIET = {"log_level": 0}
Rows = list[tuple[bytes | None, bytes | None, Any, int]]


@contextlib.contextmanager
def consuming(bootstrap: str, **config: Any) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            **QUIET,
            **config,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def read(bootstrap: str, topic: str, count: int, partition: int = 0, offset: int = OFFSET_BEGINNING) -> Rows:
    """Read this many records from an offset on: key, value, headers, timestamp."""
    rows: Rows = []
    with consuming(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, partition, offset)])
        for _ in range(TIMEOUT_S * 10):
            for message in consumer.consume(count - len(rows), 0.1):
                assert message.error() is None, message.error()
                rows.append((message.key(), message.value(), message.headers(), message.timestamp()[1]))
            if len(rows) >= count:
                return rows
    raise AssertionError(f"{len(rows)} of {count} records came")


def send(bootstrap: str, topic: str, rows: list[dict[str, Any]], **config: Any) -> list[int]:
    """The offsets that the broker gave."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **QUIET, **config})
    outcomes: list[tuple[KafkaError | None, Any]] = []
    for row in rows:
        producer.produce(
            topic,
            on_delivery=lambda error, message: outcomes.append((error, message.offset())),
            **{"partition": 0, **row},
        )
    left = producer.flush(TIMEOUT_S)
    # The exception below keeps this frame alive: it must not keep the client alive.
    del producer
    assert left == 0
    for error, _ in outcomes:
        if error is not None:
            raise KafkaException(error)
    return [offset for _, offset in outcomes]


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, **QUIET})


def results(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(TIMEOUT_S) for future in futures.values()]


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: Any) -> None:
    options = {name.replace("_", "."): value for name, value in config.items()}
    results(admin.create_topics([NewTopic(topic, partitions, 1, config=options)]))


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(bootstrap: str, topic: str, codec: str) -> None:
    """M-E2: with keys, headers and times, in every codec."""
    rows = [
        {
            "key": None if number % 3 == 0 else f"key-{number}".encode(),
            "value": None if number % 10 == 9 else f"value {number} ".encode() * 20,
            "headers": [("n", str(number).encode()), ("null", None)] if number % 2 else None,
            "timestamp": RECENT_MS + number,
        }
        for number in range(200)
    ]
    offsets = send(bootstrap, topic, rows, **{"compression.type": codec})
    assert offsets == list(range(200))
    assert read(bootstrap, topic, 200) == [
        (row["key"], row["value"], row["headers"], row["timestamp"]) for row in rows
    ]
    # From the middle of a batch on.
    assert read(bootstrap, topic, 50, offset=150)[0][3] == RECENT_MS + 150


@pytest.mark.trap
def test_idempotent_producers(bootstrap: str, topic: str) -> None:
    """Trap 3: idempotence is on by default in 3.x clients."""
    rows = [{"value": str(number).encode()} for number in range(5_000)]
    offsets = send(
        bootstrap, topic, rows, **{"enable.idempotence": True, "linger.ms": 1, "batch.num.messages": 100}
    )
    assert offsets == list(range(5_000))
    assert [int(value or 0) for _, value, _, _ in read(bootstrap, topic, 5_000)] == list(range(5_000))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acknowledgements(bootstrap: str, topic: str, admin: AdminClient, acks: str) -> None:
    """M-D8"""
    create(admin, topic)
    send(bootstrap, topic, [{"value": b"x"}] * 100, acks=acks)
    assert len(read(bootstrap, topic, 100)) == 100


@pytest.mark.trap
def test_large_records(bootstrap: str, topic: str, admin: AdminClient) -> None:
    """Trap 20: MESSAGE_TOO_LARGE."""
    create(admin, topic)
    allowed = {"message.max.bytes": 10_000_000}
    big = bytes(range(256)) * 4_000
    send(bootstrap, topic, [{"value": big}], **allowed)
    assert read(bootstrap, topic, 1)[0][1] == big
    with pytest.raises(KafkaException) as refused:
        send(bootstrap, topic, [{"value": bytes(1_100_000)}], **allowed)
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    larger = f"{topic}-larger"
    create(admin, larger, max_message_bytes="5000000")
    send(bootstrap, larger, [{"value": bytes(4_000_000)}], **allowed)
    assert len(read(bootstrap, larger, 1)[0][1] or b"") == 4_000_000


@pytest.mark.trap
def test_records_that_a_topic_rejects(bootstrap: str, topic: str, admin: AdminClient) -> None:
    """Trap 20: INVALID_RECORD (no key on a compacted topic), INVALID_TIMESTAMP."""
    create(admin, topic, cleanup_policy="compact", message_timestamp_before_max_ms="1000")
    with pytest.raises(KafkaException) as refused:
        send(bootstrap, topic, [{"value": b"no key"}])
    assert refused.value.args[0].code() == KafkaError.INVALID_RECORD
    with pytest.raises(KafkaException) as refused:
        send(bootstrap, topic, [{"key": b"k", "value": b"v", "timestamp": 1_000_000_000_000}])
    assert refused.value.args[0].code() == KafkaError.INVALID_TIMESTAMP


def test_times_may_be_the_broker_s(bootstrap: str, topic: str, admin: AdminClient) -> None:
    create(admin, topic, message_timestamp_type="LogAppendTime")
    send(bootstrap, topic, [{"value": b"x", "timestamp": 1_000_000_000_000}])
    assert read(bootstrap, topic, 1)[0][3] > 1_700_000_000_000


def test_the_broker_may_choose_the_codec(bootstrap: str, topic: str, admin: AdminClient) -> None:
    create(admin, topic, compression_type="zstd")
    rows = [{"key": b"k", "value": f"value {number}".encode()} for number in range(100)]
    send(bootstrap, topic, rows, **{"compression.type": "gzip"})
    assert [value for _, value, _, _ in read(bootstrap, topic, 100)] == [row["value"] for row in rows]


@pytest.mark.trap
def test_offsets_by_time(bootstrap: str, topic: str, admin: AdminClient) -> None:
    """Trap 10: the first offset with a timestamp at or after the given one, also in compressed batches."""
    first = RECENT_MS
    rows = [{"value": b"x", "timestamp": first + 10 * number} for number in range(100)]
    send(bootstrap, topic, rows, **{"compression.type": "lz4"})
    with consuming(bootstrap) as consumer:
        for asked, found in ((0, 0), (first + 1, 1), (first + 500, 50), (first + 989, 99)):
            (one,) = consumer.offsets_for_times([TopicPartition(topic, 0, asked)], TIMEOUT_S)
            assert one.offset == found, asked
        (past,) = consumer.offsets_for_times([TopicPartition(topic, 0, first + 10_000)], TIMEOUT_S)
        assert past.offset == -1
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S) == (0, 100)
    partition = TopicPartition(topic, 0)
    for spec, offset in (
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 100),
        (OffsetSpec.max_timestamp(), 99),
        (OffsetSpec.for_timestamp(first + 11), 2),
    ):
        (result,) = results(admin.list_offsets({partition: spec}))
        assert result.offset == offset


def test_a_consumer_waits_for_what_comes(bootstrap: str, topic: str, admin: AdminClient) -> None:
    """M-A5: a long poll ends when a record arrives."""
    create(admin, topic)
    with consuming(bootstrap, **{"fetch.wait.max.ms": 10_000}) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.poll(0.2) is None
        send(bootstrap, topic, [{"value": b"late"}])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.value() == b"late"


def test_a_first_write_makes_the_topic(bootstrap: str, topic: str) -> None:
    """M-A3"""
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    producer.produce(topic, b"first")
    assert producer.flush(TIMEOUT_S) == 0
    assert [value for _, value, _, _ in read(bootstrap, topic, 1)] == [b"first"]


def test_topics_are_made_described_and_deleted(bootstrap: str, topic: str, admin: AdminClient) -> None:
    """M-A2"""
    create(admin, topic, 3, retention_ms="123456")
    listed = admin.list_topics(topic, TIMEOUT_S).topics[topic]
    assert sorted(listed.partitions) == [0, 1, 2]
    assert {value.leader for value in listed.partitions.values()} == {1}
    (described,) = results(admin.describe_topics(TopicCollection([topic])))
    assert (described.name, len(described.partitions), described.is_internal) == (topic, 3, False)
    with pytest.raises(KafkaException) as refused:
        create(admin, topic)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    results(admin.delete_topics([topic]))
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics


@pytest.mark.trap
def test_more_partitions(topic: str, admin: AdminClient) -> None:
    """Trap 19: the CreatePartitions result is not empty."""
    create(admin, topic)
    assert results(admin.create_partitions([NewPartitions(topic, 4)])) == [None]
    assert len(admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions) == 4
    with pytest.raises(KafkaException) as refused:
        results(admin.create_partitions([NewPartitions(topic, 2)]))
    assert refused.value.args[0].code() == KafkaError.INVALID_PARTITIONS


@pytest.mark.trap
def test_options_are_described_and_changed(topic: str, admin: AdminClient) -> None:
    """Traps 15 and 16: DescribeConfigs complete; IncrementalAlterConfigs with SET, DELETE, APPEND,
    SUBTRACT."""
    create(admin, topic, retention_ms="1000")

    def described() -> dict[str, ConfigEntry]:
        (entries,) = results(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
        found: dict[str, ConfigEntry] = entries
        return found

    def change(name: str, operation: AlterConfigOpType, value: str | None) -> None:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        assert results(admin.incremental_alter_configs([resource])) == [None]

    before = described()
    assert len(before) > 30
    assert before["retention.ms"].value == "1000"
    assert before["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert before["segment.bytes"].is_default
    change("retention.ms", AlterConfigOpType.SET, "2000")
    change("cleanup.policy", AlterConfigOpType.APPEND, "compact")
    assert described()["retention.ms"].value == "2000"
    assert described()["cleanup.policy"].value == "delete,compact"
    change("cleanup.policy", AlterConfigOpType.SUBTRACT, "delete")
    assert described()["cleanup.policy"].value == "compact"
    change("retention.ms", AlterConfigOpType.DELETE, None)
    assert described()["retention.ms"].is_default
    with pytest.raises(KafkaException) as refused:
        change("retention.ms", AlterConfigOpType.SET, "soon")
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_a_broker_s_options(admin: AdminClient) -> None:
    (entries,) = results(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
    assert len(entries) > 200
    assert entries["node.id"].value == "1"
    assert entries["node.id"].is_read_only


def test_the_cluster_is_described(bootstrap: str, admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    assert [(node.id, f"{node.host}:{node.port}") for node in cluster.nodes] == [(1, bootstrap)]
    assert len(cluster.cluster_id) == 22


def test_records_are_deleted(bootstrap: str, topic: str, admin: AdminClient) -> None:
    send(bootstrap, topic, [{"value": str(number).encode()} for number in range(10)])
    (deleted,) = results(admin.delete_records([TopicPartition(topic, 0, 4)]))
    assert deleted.low_watermark == 4
    assert [value for _, value, _, _ in read(bootstrap, topic, 6, offset=4)] == [
        b"%d" % n for n in range(4, 10)
    ]
    with consuming(bootstrap) as consumer:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S) == (4, 10)


def test_many_partitions_and_order(bootstrap: str, topic: str, admin: AdminClient) -> None:
    """M-A8: order is kept within a partition, the same key goes to the same one."""
    create(admin, topic, 6)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 5, **QUIET}
    )
    for number in range(3_000):
        producer.produce(topic, str(number).encode(), f"key-{number % 50}".encode())
    assert producer.flush(TIMEOUT_S) == 0
    by_key: dict[bytes, list[int]] = {}
    places: dict[bytes, set[int]] = {}
    with consuming(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(6)])
        for _ in range(TIMEOUT_S * 10):
            for message in consumer.consume(3_000, 0.1):
                key = message.key()
                assert key is not None
                by_key.setdefault(key, []).append(int(message.value() or 0))
                places.setdefault(key, set()).add(message.partition() or 0)
            if sum(map(len, by_key.values())) == 3_000:
                break
    assert sum(map(len, by_key.values())) == 3_000
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    assert all(len(partitions) == 1 for partitions in places.values())
    from barnabas.base.hashing import partition_for_key

    assert all({partition_for_key(key, 6)} == partitions for key, partitions in places.items())


def test_batches_of_different_codecs_are_read_together(bootstrap: str, fresh_name: Callable[[], str]) -> None:
    topic = fresh_name()
    for codec in CODECS:
        send(bootstrap, topic, [{"value": codec.encode()}] * 3, **{"compression.type": codec})
    expected = [codec.encode() for codec in CODECS for _ in range(3)]
    assert [value for _, value, _, _ in read(bootstrap, topic, 15)] == expected
