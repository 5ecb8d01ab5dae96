"""What people do with their clients, step by step, with the outcome of each step as a plain value.

One scenario per client; each is run against two brokers, and the outcomes must be equal.  Scenarios do not
assert, and leave out what differs between two brokers by nature (times, ids).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka import KafkaException as ConfluentException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.admin
    from kafka.errors import KafkaError as KafkaPythonError

import aiokafka
import aiokafka.admin
from aiokafka.errors import KafkaError as AiokafkaError

Outcomes = list[tuple[str, Any]]
TIMEOUT_S = 20
# Apache Kafka's broker learns of a change a moment after its controller has answered.
SETTLE_S = 0.5
T = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BAD_TOPICS: dict[str, dict[str, Any]] = {
    "illegal name": {"topic": "a b", "num_partitions": 1, "replication_factor": 1},
    "exists": {"topic": "orders", "num_partitions": 1, "replication_factor": 1},
    "no partitions": {"topic": "none", "num_partitions": 0, "replication_factor": 1},
    "too many replicas": {"topic": "many", "num_partitions": 1, "replication_factor": 3},
    "bad option": {
        "topic": "odd",
        "num_partitions": 1,
        "replication_factor": 1,
        "config": {"retention.ms": "soon"},
    },
}


class Steps:
    """Collects outcomes; an error of the client is an outcome too."""

    def __init__(self, *errors: type[BaseException]) -> None:
        self.outcomes: Outcomes = []
        self._errors = errors

    def take(self, title: str, step: Callable[..., Any], *given: Any) -> None:
        try:
            self.outcomes.append((title, step(*given)))
        except self._errors as error:
            self.outcomes.append((title, said(error)))

    async def wait(self, title: str, step: Coroutine[Any, Any, Any]) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                self.outcomes.append((title, await step))
        except self._errors as error:
            self.outcomes.append((title, said(error)))


def said(error: BaseException) -> str:
    inner: Any = error.args[0] if isinstance(error, ConfluentException) and error.args else error
    if hasattr(inner, "name") and callable(inner.name):
        return f"{inner.name()}: {inner.str()}"
    return f"{type(inner).__name__}: {inner}"


# confluent-kafka -------------------------------------------------------------------------------------------


def confluent(bootstrap: str) -> Outcomes:
    quiet: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
    steps = Steps(ConfluentException)
    admin = AdminClient(quiet)
    _confluent_topics(steps, admin)
    for codec in CODECS:
        steps.take(f"write {codec}", _confluent_write, quiet, codec)
    steps.take(
        "write too much",
        lambda: _confluent_send(quiet, "orders", b"x" * 2_000_000, **{"message.max.bytes": 5_000_000}),
    )
    steps.take("write without a key to a compacted topic", _confluent_send, quiet, "compacted", b"x")
    steps.take("write to no such partition", _confluent_send, quiet, "orders", b"x", 9)
    steps.take(
        "write to a topic that is made by it",
        _confluent_send,
        quiet,
        "made-by-writing",
        b"x",
        -1,
    )
    for offset in (0, 130, 499):
        steps.take(f"read from {offset}", _confluent_read, quiet, offset)
    steps.take("read behind the end", _confluent_read, quiet, 9_999)
    _confluent_offsets(steps, quiet, admin)
    _confluent_options(steps, admin)
    _confluent_changes(steps, quiet, admin)
    return steps.outcomes


def _result(futures: Any) -> Any:
    (future,) = futures.values()
    return future.result(TIMEOUT_S)


def _created(admin: AdminClient, topic: NewTopic) -> Any:
    return _result(admin.create_topics([topic]))


def _confluent_topics(steps: Steps, admin: AdminClient) -> None:
    steps.take(
        "the cluster", lambda: sorted(node.id for node in admin.describe_cluster().result(TIMEOUT_S).nodes)
    )
    for name, config in {
        "orders": {},
        "compacted": {"cleanup.policy": "compact"},
        "small": {"max.message.bytes": "200"},
    }.items():
        topic = NewTopic(name, num_partitions=2, replication_factor=1, config=config)
        steps.take(f"make {name}", _created, admin, topic)
    for why, fields in BAD_TOPICS.items():
        steps.take(
            f"make a bad topic: {why}",
            _created,
            admin,
            NewTopic(**fields),
        )
    validated = [NewTopic("never", num_partitions=3, replication_factor=1)]
    steps.take("only validate", lambda: _result(admin.create_topics(validated, validate_only=True)))
    time.sleep(SETTLE_S)
    steps.take("topics", _confluent_described, admin)


def _confluent_described(admin: AdminClient) -> Any:
    topics = admin.list_topics(timeout=TIMEOUT_S).topics
    return {
        name: [(one.id, one.leader, one.replicas, one.isrs) for one in topic.partitions.values()]
        for name, topic in sorted(topics.items())
        # A consumer with a group makes Apache Kafka create its topic of offsets.
        if name != "__consumer_offsets"
    }


def _confluent_write(quiet: dict[str, Any], codec: str) -> list[Any]:
    producer = Producer({**quiet, "compression.type": codec, "linger.ms": 50, "enable.idempotence": True})
    outcomes: list[Any] = []
    for number in range(100):
        producer.produce(
            "orders",
            key=f"key {number % 7}",
            value=None if number % 10 == 0 else f"value {number}" * 5,
            headers=[("codec", codec.encode()), ("none", None)],
            timestamp=T + number,
            partition=0,
            on_delivery=lambda error, message: outcomes.append(
                error.name() if error else (message.partition(), message.offset(), message.timestamp())
            ),
        )
    producer.flush(TIMEOUT_S)
    return outcomes


def _confluent_send(
    quiet: dict[str, Any], topic: str, value: bytes, partition: int = 0, **options: Any
) -> list[Any]:
    producer = Producer({**quiet, **options})
    outcomes: list[Any] = []
    producer.produce(
        topic,
        value,
        partition=partition,
        timestamp=T,
        on_delivery=lambda error, message: outcomes.append(
            f"{error.name()}: {error.str()}" if error else message.offset()
        ),
    )
    producer.flush(TIMEOUT_S)
    return outcomes


def _confluent_read(quiet: dict[str, Any], offset: int) -> list[Any]:
    options = {"group.id": "readers", "enable.auto.commit": False, "auto.offset.reset": "error"}
    consumer = Consumer({**quiet, **options, "enable.partition.eof": True})
    consumer.assign([TopicPartition("orders", 0, offset)])
    rows: list[Any] = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        if message is None:
            rows.append("nothing more")
            break
        if error := message.error():
            rows.append(error.name())
            break
        rows.append(
            (
                message.offset(),
                message.key(),
                message.value(),
                message.headers(),
                message.timestamp(),
                message.leader_epoch(),
            )
        )
    consumer.close()
    return rows


def _confluent_offsets(steps: Steps, quiet: dict[str, Any], admin: AdminClient) -> None:
    consumer = Consumer({**quiet, "group.id": "readers", "enable.auto.commit": False})
    for asked_time in (0, T + 50, T + 10_000_000):
        place = TopicPartition("orders", 0, asked_time)
        steps.take(
            f"offset for {asked_time - T}",
            _offset_for_time,
            consumer,
            place,
        )
    steps.take("watermarks", lambda: consumer.get_watermark_offsets(TopicPartition("orders", 0), TIMEOUT_S))
    steps.take(
        "watermarks of nothing",
        lambda: consumer.get_watermark_offsets(TopicPartition("nowhere", 0), TIMEOUT_S),
    )
    consumer.close()
    for name, spec in {
        "earliest": OffsetSpec.earliest(),
        "latest": OffsetSpec.latest(),
        "newest": OffsetSpec.max_timestamp(),
    }.items():
        asked = {TopicPartition("orders", 0): spec}
        steps.take(f"list {name}", _listed, admin, asked)


def _offset_for_time(consumer: Consumer, place: TopicPartition) -> int:
    return int(consumer.offsets_for_times([place], TIMEOUT_S)[0].offset)


def _listed(admin: AdminClient, asked: dict[TopicPartition, Any]) -> tuple[int, int]:
    found = _result(admin.list_offsets(asked))
    return found.offset, found.timestamp


def _confluent_options(steps: Steps, admin: AdminClient) -> None:
    topic = ConfigResource(ConfigResource.Type.TOPIC, "orders")
    nowhere = ConfigResource(ConfigResource.Type.TOPIC, "nowhere")
    steps.take("options", _confluent_entries, admin, topic)
    steps.take("options of nothing", _confluent_entries, admin, nowhere)
    changes = {
        "set": ("retention.ms", "86400000", AlterConfigOpType.SET),
        "append": ("cleanup.policy", "compact", AlterConfigOpType.APPEND),
        "delete": ("retention.ms", None, AlterConfigOpType.DELETE),
        "set badly": ("retention.ms", "soon", AlterConfigOpType.SET),
        "set what is none": ("no.such.option", "1", AlterConfigOpType.SET),
    }
    for title, (name, value, operation) in changes.items():
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ConfigResource.Type.TOPIC, "orders", incremental_configs=[entry])
        steps.take(title, _altered, admin, resource)
    time.sleep(SETTLE_S)
    steps.take("options then", _confluent_entries, admin, topic)


def _altered(admin: AdminClient, resource: ConfigResource) -> Any:
    return _result(admin.incremental_alter_configs([resource]))


def _confluent_entries(admin: AdminClient, resource: ConfigResource) -> Any:
    entries = _result(admin.describe_configs([resource])).values()
    return {
        entry.name: (
            entry.value,
            entry.source,
            entry.is_read_only,
            entry.is_default,
            entry.is_sensitive,
            sorted(entry.synonyms),
        )
        for entry in sorted(entries, key=lambda entry: str(entry.name))
    }


def _confluent_changes(steps: Steps, quiet: dict[str, Any], admin: AdminClient) -> None:
    for title, offset in (("some", 10), ("too many", 99_999)):
        place = TopicPartition("orders", 0, offset)
        steps.take(
            f"delete {title} records",
            _low_watermark,
            admin,
            place,
        )
    steps.take("read what was deleted", _confluent_read, quiet, 3)
    for count in (4, 4, 1):
        steps.take(
            f"{count} partitions",
            _enlarged,
            admin,
            count,
        )
    for name in ("small", "small", "nowhere"):
        steps.take(f"delete {name}", _deleted, admin, name)
    time.sleep(SETTLE_S)
    steps.take("topics in the end", _confluent_described, admin)


def _low_watermark(admin: AdminClient, place: TopicPartition) -> int:
    return int(_result(admin.delete_records([place])).low_watermark)


def _enlarged(admin: AdminClient, count: int) -> Any:
    return _result(admin.create_partitions([NewPartitions("orders", count)]))


def _deleted(admin: AdminClient, name: str) -> Any:
    return _result(admin.delete_topics([name]))


# kafka-python ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def closing(client: Any) -> Iterator[Any]:
    try:
        yield client
    finally:
        client.close()


def kafka_python(bootstrap: str) -> Outcomes:
    steps = Steps(KafkaPythonError, ValueError)
    with closing(kafka.admin.KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        steps.take("make", _done, admin.create_topics, [kafka.admin.NewTopic("plain", 2, 1)])
        for why, fields in BAD_TOPICS.items():
            topic = kafka.admin.NewTopic(
                fields["topic"].replace("orders", "plain"),
                fields["num_partitions"],
                fields["replication_factor"],
                topic_configs=fields.get("config", {}),
            )
            steps.take(f"make a bad topic: {why}", _done, admin.create_topics, [topic])
        time.sleep(SETTLE_S)
        steps.take("describe", lambda: _without_ids(admin.describe_topics(["plain"])))
        steps.take("cluster", lambda: [one["broker_id"] for one in admin.describe_cluster()["brokers"]])
        for codec in (None, *CODECS[1:]):
            steps.take(f"write {codec}", _kafka_python_write, bootstrap, codec)
        steps.take("write too much", _kafka_python_send, bootstrap, bytes(2_000_000))
        steps.take("read", _kafka_python_read, bootstrap)
        steps.take("offsets", _kafka_python_offsets, bootstrap)
        steps.take(
            "more partitions",
            _done,
            admin.create_partitions,
            {"plain": kafka.admin.NewPartitions(4)},
        )
        steps.take(
            "fewer partitions", _done, admin.create_partitions, {"plain": kafka.admin.NewPartitions(1)}
        )
        steps.take("delete", _done, admin.delete_topics, ["plain"])
        steps.take("delete again", _done, admin.delete_topics, ["plain"])
    return steps.outcomes


def _done(work: Callable[[Any], Any], given: Any) -> str:
    """What was done is answered with the ids of topics; what went wrong is raised."""
    work(given)
    return "done"


def _without_ids(described: Any) -> Any:
    for one in described:
        del one["topic_id"]
        one["partitions"].sort(key=lambda partition: partition["partition_index"])
    return described


def _kafka_python_write(bootstrap: str, codec: str | None) -> list[Any]:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=20)
    with closing(producer):
        sent = [
            producer.send(
                "plain",
                key=f"k{number}".encode() if number % 2 else None,
                value=f"value {number} ".encode() * 10,
                headers=[("h", str(number).encode())],
                timestamp_ms=T + number,
                partition=0,
            )
            for number in range(50)
        ]
        return [
            (one.partition, one.offset, one.timestamp) for one in (future.get(TIMEOUT_S) for future in sent)
        ]


def _kafka_python_send(bootstrap: str, value: bytes) -> int:
    with closing(kafka.KafkaProducer(bootstrap_servers=bootstrap, max_request_size=5_000_000)) as producer:
        return int(producer.send("plain", value, partition=0).get(TIMEOUT_S).offset)


def _kafka_python_read(bootstrap: str) -> list[Any]:
    place = kafka.TopicPartition("plain", 0)
    rows: list[Any] = []
    with closing(kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        for _ in range(10 * TIMEOUT_S):
            for records in consumer.poll(100).values():
                rows += [
                    (one.offset, one.key, one.value, one.headers, one.timestamp, one.timestamp_type)
                    for one in records
                ]
            if consumer.position(place) == consumer.end_offsets([place])[place]:
                break
    return rows


def _kafka_python_offsets(bootstrap: str) -> Any:
    place = kafka.TopicPartition("plain", 0)
    with closing(kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)) as consumer:
        found = [consumer.offsets_for_times({place: asked})[place] for asked in (0, T + 20, T + 10_000_000)]
        times = [None if one is None else (one.offset, one.timestamp) for one in found]
        return (
            times,
            consumer.beginning_offsets([place]),
            consumer.end_offsets([place]),
            consumer.partitions_for_topic("plain"),
        )


# aiokafka --------------------------------------------------------------------------------------------------


def aio(bootstrap: str) -> Outcomes:
    return asyncio.run(_aio(bootstrap))


async def _aio(bootstrap: str) -> Outcomes:
    steps = Steps(AiokafkaError, TimeoutError)
    admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await steps.wait("make", _shown(admin.create_topics([aiokafka.admin.NewTopic("async", 2, 1)])))
        await steps.wait("make again", _shown(admin.create_topics([aiokafka.admin.NewTopic("async", 2, 1)])))
        await asyncio.sleep(SETTLE_S)
        for codec in (None, *CODECS[1:]):
            await steps.wait(f"write {codec}", _aio_write(bootstrap, codec))
        await steps.wait("write too much", _aio_send(bootstrap, bytes(2_000_000)))
        await steps.wait("read", _aio_read(bootstrap, 250))
        await steps.wait("offsets", _aio_offsets(bootstrap))
        await steps.wait("topics", _aio_topics(admin))
        await steps.wait("delete", _shown(admin.delete_topics(["async"])))
    finally:
        await admin.close()
    return steps.outcomes


async def _shown(work: Coroutine[Any, Any, Any]) -> str:
    return str(await work)


async def _aio_topics(admin: Any) -> Any:
    (described,) = await admin.describe_topics(["async"])
    return described["error_code"], sorted(one["partition"] for one in described["partitions"])


async def _aio_write(bootstrap: str, codec: str | None) -> list[Any]:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap, compression_type=codec, enable_idempotence=True
    )
    await producer.start()
    try:
        sent = [
            await producer.send(
                "async", f"value {number}".encode(), key=b"k", timestamp_ms=T + number, partition=0
            )
            for number in range(50)
        ]
        return [(one.partition, one.offset, one.timestamp) for one in [await future for future in sent]]
    finally:
        await producer.stop()


async def _aio_send(bootstrap: str, value: bytes) -> int:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, max_request_size=5_000_000)
    await producer.start()
    try:
        return int((await producer.send_and_wait("async", value, partition=0)).offset)
    finally:
        await producer.stop()


async def _aio_read(bootstrap: str, count: int) -> list[Any]:
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    await consumer.start()
    try:
        place = aiokafka.TopicPartition("async", 0)
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        records = [await consumer.getone(place) for _ in range(count)]
        return [(one.offset, one.key, one.value, one.timestamp, one.timestamp_type) for one in records]
    finally:
        await consumer.stop()


async def _aio_offsets(bootstrap: str) -> Any:
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    await consumer.start()
    try:
        place = aiokafka.TopicPartition("async", 0)
        found = [
            (await consumer.offsets_for_times({place: asked}))[place] for asked in (0, T + 20, T + 10_000_000)
        ]
        times = [None if one is None else (one.offset, one.timestamp) for one in found]
        return times, await consumer.beginning_offsets([place]), await consumer.end_offsets([place])
    finally:
        await consumer.stop()


SCENARIOS: dict[str, Callable[[str], Outcomes]] = {
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aio,
}
