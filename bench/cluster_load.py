"""Clients of a cluster: topics with three replicas, and loads by librdkafka, whose records are counted."""

from __future__ import annotations

import itertools
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as ClientPartition

from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from bench.clusters import BROKERS, PATIENCE_S, RETRY_S, Cluster

REPLICAS = 3
MIN_ISR = 2
CREATE_VERSION = 7
DELETE_VERSION = 5
FLUSH_S = 120
TRANSACTION_S = 1.0
# Records that are handed over between two looks at the delivery reports.
PORTION = 512
_numbers = itertools.count()
_PROCESS = os.getpid()


@dataclass(frozen=True, slots=True)
class ReplicatedLoad:
    """What one producer sends, acks=all."""

    record_bytes: int = 1024
    partitions: int = 6
    codec: str = "none"
    idempotent: bool = False
    transactional: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """What was acknowledged, and what it cost all nodes."""

    records: int
    size: int
    seconds: float
    cpu_seconds: float

    @property
    def mb_per_second(self) -> float:
        return self.size / self.seconds / 1e6

    @property
    def cpu_seconds_per_gb(self) -> float:
        return self.cpu_seconds / (self.size / 1e9)


def create(
    cluster: Cluster, names: Sequence[str], partitions: int, configs: Mapping[str, str] | None = None
) -> None:
    config = CreateTopicsRequest.CreatableTopicConfig
    chosen = [config(name=name, value=value) for name, value in (configs or {}).items()]
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=REPLICAS,
                assignments=[],
                configs=chosen,
            )
            for name in names
        ],
        timeout_ms=PATIENCE_S * 1000,
    )
    with cluster.connect() as connection:
        response = connection.ask(request, CREATE_VERSION, CreateTopicsResponse)
    assert not any(topic.error_code for topic in response.topics), response


def delete(cluster: Cluster, names: Sequence[str]) -> None:
    request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=PATIENCE_S * 1000)
    with cluster.connect() as connection:
        response = connection.ask(request, DELETE_VERSION, DeleteTopicsResponse)
    assert not any(topic.error_code for topic in response.responses), response


def wait_for(holds: Callable[[], bool], what: str, retry_s: float = RETRY_S) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, f"after {PATIENCE_S} s: {what}"
        time.sleep(retry_s)


def is_whole(cluster: Cluster, names: Sequence[str] | None) -> bool:
    """Whether every partition of these topics, or of all, has a leader and all its replicas in sync."""
    topics = cluster.metadata(names).topics
    return bool(topics) and all(
        not topic.error_code
        and bool(topic.partitions)
        and all(
            not partition.error_code
            and partition.leader_id >= 0
            and len(partition.isr_nodes) == len(partition.replica_nodes)
            for partition in topic.partitions
        )
        for topic in topics
    )


@contextmanager
def topic(cluster: Cluster, partitions: int, configs: Mapping[str, str] | None = None) -> Iterator[str]:
    """A new topic with all replicas in sync; its files are deleted before the next measurement."""
    name = f"bench-{_PROCESS}-{next(_numbers):06}"
    create(cluster, [name], partitions, {"min.insync.replicas": str(MIN_ISR), **(configs or {})})
    wait_for(lambda: is_whole(cluster, [name]), f"{name} is not in sync")
    yield name
    delete(cluster, [name])
    folders = [cluster.brokers[broker_id].data for broker_id in BROKERS]
    wait_for(
        lambda: not any(any(data.glob(f"{name}-*")) for data in folders), f"the files of {name} are there"
    )


def values(size: int) -> list[bytes]:
    """Text that a codec can compress, like JSON."""
    chance = random.Random(3)
    words = [bytes(chance.choices(b'abcdefghijklmnopqrstuvwxyz0123456789{}":,', k=12)) for _ in range(200)]
    return [b"".join(chance.choice(words) for _ in range(size // 12 + 1))[:size] for _ in range(64)]


def producer_of(cluster: Cluster, load: ReplicatedLoad, options: Mapping[str, object]) -> Producer:
    chosen: dict[str, object] = {
        "bootstrap.servers": cluster.bootstrap,
        "acks": "all",
        "compression.type": load.codec,
        "enable.idempotence": load.idempotent or load.transactional,
        "log_level": 0,
        **options,
    }
    if load.transactional:
        chosen["transactional.id"] = str(uuid.uuid4())
    return Producer(chosen)


def produce(cluster: Cluster, name: str, load: ReplicatedLoad, seconds: float) -> Sent:
    """Sends as much as is taken for so long, and until the last record is acknowledged."""
    return _produce(cluster, name, load, seconds=seconds)


def produce_size(cluster: Cluster, name: str, load: ReplicatedLoad, size: int) -> Sent:
    """Sends so many bytes."""
    return _produce(cluster, name, load, records=size // load.record_bytes)


def _produce(
    cluster: Cluster, name: str, load: ReplicatedLoad, *, seconds: float = inf, records: float = inf
) -> Sent:
    producer = producer_of(
        cluster,
        load,
        {
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 262_144,
        },
    )
    sent = _Deliveries()
    if load.transactional:
        producer.init_transactions(FLUSH_S)
    cpu_before, started = cluster.cpu_seconds, time.perf_counter()
    markers = _send(producer, name, load, sent, started + seconds, records)
    elapsed = time.perf_counter() - started
    cpu = cluster.cpu_seconds - cpu_before
    sent.check()
    check_count(cluster, name, load.partitions, sent.count + markers)
    return Sent(sent.count, sent.count * load.record_bytes, elapsed, cpu)


class _Deliveries:
    """Counts delivery reports."""

    def __init__(self) -> None:
        self.handed_over = 0
        self.count = 0
        self.error: KafkaError | None = None

    def report(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.count += 1
        else:
            self.error = error

    def check(self) -> None:
        assert self.error is None, self.error
        assert self.count == self.handed_over, f"{self.handed_over} were sent, {self.count} acknowledged"


def _send(
    producer: Producer, name: str, load: ReplicatedLoad, sent: _Deliveries, end: float, records: float
) -> int:
    """Returns the number of markers: of each transaction one for each partition that took part."""
    content = values(load.record_bytes)
    commit_at = 0.0
    markers, touched = 0, set[int]()
    while (now := time.perf_counter()) < end and sent.handed_over < records:
        if load.transactional and now >= commit_at:
            if commit_at:
                producer.commit_transaction(FLUSH_S)
            producer.begin_transaction()
            markers += len(touched)
            touched.clear()
            commit_at = now + TRANSACTION_S
        partition = sent.handed_over // PORTION % load.partitions
        for number in range(PORTION):
            while True:
                try:
                    producer.produce(name, content[number & 63], partition=partition, on_delivery=sent.report)
                    break
                except BufferError:
                    producer.poll(0.01)
        sent.handed_over += PORTION
        touched.add(partition)
        producer.poll(0)
    if load.transactional:
        producer.commit_transaction(FLUSH_S)
        markers += len(touched)
    assert producer.flush(FLUSH_S) == 0, "not everything was acknowledged"
    return markers


def check_count(cluster: Cluster, name: str, partitions: int, expected: int) -> None:
    """The cluster has as many records and markers as were acknowledged."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:

        def held() -> int:
            ends = [
                consumer.get_watermark_offsets(ClientPartition(name, index, OFFSET_INVALID), timeout=FLUSH_S)[
                    1
                ]
                for index in range(partitions)
            ]
            return sum(ends)

        # The last markers follow their commit.
        wait_for(lambda: held() >= expected, f"{expected} records were acknowledged, {held()} are there")
        assert held() == expected, f"{expected} records were acknowledged, {held()} are there"
    except KafkaException as error:
        raise AssertionError(error) from error
    finally:
        consumer.close()


def pace(cluster: Cluster, name: str, load: ReplicatedLoad, per_second: int, seconds: float) -> list[float]:
    """Sends at a fixed rate; the time of each record until it is acknowledged, in milliseconds, sorted."""
    producer = producer_of(cluster, load, {"linger.ms": 5})
    content = values(load.record_bytes)
    latencies_ms: list[float] = []

    def report(due: float, error: KafkaError | None, _: Message) -> None:
        assert error is None, error
        latencies_ms.append(1000 * (time.perf_counter() - due))

    # Connections first.
    for index in range(load.partitions):
        producer.produce(name, content[0], partition=index)
    assert producer.flush(FLUSH_S) == 0, "not everything was acknowledged"
    due = time.perf_counter()
    for number in range(int(per_second * seconds)):
        while (left := due - time.perf_counter()) > 0:
            producer.poll(min(left, 0.001))
        producer.produce(
            name,
            content[number & 63],
            partition=number % load.partitions,
            on_delivery=partial(report, due),
        )
        due += 1 / per_second
    assert producer.flush(FLUSH_S) == 0, "not everything was acknowledged"
    return sorted(latencies_ms)
