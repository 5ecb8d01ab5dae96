"""Faults of requests, as the clients that people use see them; the rest of each request stays real."""

from __future__ import annotations

import asyncio
import socket
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.client import OffsetAndMetadata
from barnabas.client import TopicPartition as Place
from barnabas.protocol.frame import write_request
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.testing import Cluster, KitError, WaitTimeoutError, wait_for
from tools.raw_broker import RawConnection

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer
    from kafka.errors import MessageSizeTooLargeError as KafkaPythonTooLargeError

# kafka-python and aiokafka leave sockets to the garbage collector when a broker goes.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as running:
        yield running


class Deliveries:
    """What a producer of confluent-kafka was told."""

    def __init__(self, cluster: Cluster, **options: Any) -> None:
        self.errors: dict[int, list[str | None]] = {}
        self.throttled_s: list[float] = []
        self.producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "linger.ms": 50,
                "throttle_cb": lambda event: self.throttled_s.append(event.throttle_time),
                **options,
            }
        )

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        self.producer.produce(topic, value, partition=partition, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        text = None if error is None else error.name()
        self.errors.setdefault(message.partition(), []).append(text)

    def flush(self) -> None:
        assert self.producer.flush(TIMEOUT_S) == 0


def test_an_error_strikes_one_partition_of_a_request(cluster: Cluster) -> None:
    topic = cluster.topic("one-of-two", partitions=2)
    deliveries = Deliveries(cluster)
    with cluster.faults.add("Produce", error="MESSAGE_TOO_LARGE", topic=topic.name, partition=1) as fault:
        deliveries.send(topic.name, "served", 0)
        deliveries.send(topic.name, "struck", 1)
        deliveries.flush()
        assert fault.hits == 1
    assert deliveries.errors == {0: [None], 1: ["MSG_SIZE_TOO_LARGE"]}
    assert [record.value for record in topic.all_records()] == [b"served"]


def test_an_error_that_clients_retry_is_got_over(cluster: Cluster) -> None:
    topic = cluster.topic("retried")
    deliveries = Deliveries(cluster, **{"retry.backoff.ms": 10})
    fault = cluster.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", topic=topic.name, times=2)
    with fault:
        deliveries.send(topic.name, "a")
        fault.wait(hits=2, timeout=TIMEOUT_S)
        deliveries.flush()
    assert deliveries.errors == {0: [None]} and fault.hits == 2
    assert len(topic.all_records()) == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_dropped_connection_loses_and_doubles_nothing_for_an_idempotent_producer(
    cluster: Cluster, when: Any
) -> None:
    topic = cluster.topic(f"dropped-{when}")
    deliveries = Deliveries(cluster, **{"enable.idempotence": True, "retry.backoff.ms": 10})
    with cluster.faults.add("Produce", drop=when, topic=topic.name, times=1) as fault:
        deliveries.send(topic.name, "a")
        fault.wait(timeout=TIMEOUT_S)
        if when == "after":
            assert [record.value for record in topic.records(1, timeout=TIMEOUT_S)] == [b"a"]
        deliveries.flush()
    assert deliveries.errors == {0: [None]}
    assert [record.value for record in topic.all_records()] == [b"a"]


def test_an_error_although_the_work_was_done_doubles_what_is_not_idempotent(cluster: Cluster) -> None:
    topic = cluster.topic("doubled")
    deliveries = Deliveries(cluster, **{"retry.backoff.ms": 10})
    with cluster.faults.add("Produce", error="REQUEST_TIMED_OUT", after=True, topic=topic.name, times=1):
        deliveries.send(topic.name, "a")
        deliveries.flush()
    assert deliveries.errors == {0: [None]}
    assert [record.value for record in topic.all_records()] == [b"a", b"a"]


def test_an_error_although_the_work_was_done_is_that_of_its_partitions(cluster: Cluster) -> None:
    topic = cluster.topic("committed-in-part", partitions=2)
    first, second = (Place(topic.name, index) for index in range(2))
    group, error = "committed-in-part", "TOPIC_AUTHORIZATION_FAILED"
    with cluster.faults.error("OffsetCommit", error, after=True, topic=topic.name, partition=0, times=1):
        new = {first: OffsetAndMetadata(1), second: OffsetAndMetadata(2)}
        altered = cluster.admin.alter_consumer_group_offsets(group, new)
    assert [place for place, failed in altered.errors.items() if failed is not None] == [first]
    assert cluster.group(group).offsets() == {first: 1, second: 2}


def test_an_error_of_a_fetch_is_that_of_its_partitions(cluster: Cluster) -> None:
    topic = cluster.topic("fetched")
    topic.send("a")
    wanted = FetchRequest.Partition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[FetchRequest.Topic(topic=topic.name, partitions=[wanted])],
    )
    host, port = cluster.bootstrap_servers.split(":")
    with RawConnection((host, int(port)), TIMEOUT_S) as connection:
        with cluster.faults.error("Fetch", "NOT_LEADER_OR_FOLLOWER"):
            answer = connection.ask(request, 12, FetchResponse)
        assert answer.error_code == 0
        [partition] = answer.responses[0].partitions
        assert (partition.error_code, partition.high_watermark) == (6, -1)
        with cluster.faults.error("Fetch", "FETCH_SESSION_ID_NOT_FOUND"):
            assert connection.ask(request, 12, FetchResponse).error_code == 70


def test_a_delay_and_a_hold_last_as_long_as_they_say(cluster: Cluster) -> None:
    topic = cluster.topic("delayed")
    deliveries = Deliveries(cluster, **{"linger.ms": 0})
    began = time.monotonic()
    with cluster.faults.add("Produce", delay=0.3, times=1):
        deliveries.send(topic.name, "a")
        deliveries.flush()
    assert time.monotonic() - began >= 0.3
    with cluster.faults.add("Produce", hold=True) as fault:
        deliveries.send(topic.name, "b")
        fault.wait(timeout=TIMEOUT_S)
        assert len(topic.all_records()) == 1 and deliveries.errors == {0: [None]}
    deliveries.flush()
    assert len(topic.all_records()) == 2


def test_a_held_request_is_served_although_its_client_has_gone(cluster: Cluster) -> None:
    topic = cluster.topic("gone")
    batch = bytes(build([Record(0, 1_700_000_000_000, None, b"a", ())]))
    data = ProduceRequest.PartitionProduceData(index=0, records=batch)
    topics = [ProduceRequest.TopicProduceData(name=topic.name, partition_data=[data])]
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    listener = cluster.running.node(1).broker.listeners["PLAINTEXT"]
    with cluster.faults.add("Produce", hold=True, client_id="gone") as fault:
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(write_request(request, 9, 1, "gone"))
            fault.wait(timeout=TIMEOUT_S)
        wait_for(lambda: "gone" not in cluster.running.call(listener.client_ids), TIMEOUT_S)
    assert [record.value for record in topic.records(1, timeout=TIMEOUT_S)] == [b"a"]


def test_throttling_is_told_to_the_client(cluster: Cluster) -> None:
    topic = cluster.topic("throttled")
    deliveries = Deliveries(cluster)
    with cluster.faults.add("Produce", throttle=0.25, client_id="rdkafka", times=1) as fault:
        deliveries.send(topic.name, "a")
        deliveries.flush()
        assert fault.hits == 1
    assert deliveries.throttled_s == [0.25]


def test_a_fetch_fault_leaves_the_other_partitions(cluster: Cluster) -> None:
    topic = cluster.topic("half-read", partitions=2)
    for partition in range(2):
        topic.send(f"p{partition}", partition=partition)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "half", "client.id": "reader"}
    )
    try:
        with cluster.faults.add(
            "Fetch", error="NOT_LEADER_OR_FOLLOWER", client_id="reader", topic=topic.name, partition=1
        ) as fault:
            consumer.assign([TopicPartition(topic.name, partition, 0) for partition in range(2)])
            message = consumer.poll(TIMEOUT_S)
            assert message is not None and message.value() == b"p0"
            fault.wait(timeout=TIMEOUT_S)
        message = consumer.poll(TIMEOUT_S)
        assert message is not None and message.value() == b"p1"
    finally:
        consumer.close()


def test_a_client_that_is_cut_off_waits_and_others_are_served(cluster: Cluster) -> None:
    topic = cluster.topic("cut-off")
    deliveries = Deliveries(cluster, **{"client.id": "cut-off", "linger.ms": 0})
    with cluster.faults.partition("cut-off"):
        deliveries.send(topic.name, "late")
        topic.send("early")
        assert [record.value for record in topic.all_records()] == [b"early"]
    deliveries.flush()
    assert [record.value for record in topic.all_records()] == [b"early", b"late"]


def test_aiokafka_and_kafka_python_get_the_error_too(cluster: Cluster) -> None:
    topic = cluster.topic("other-clients")

    async def with_aiokafka() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                with pytest.raises(MessageSizeTooLargeError):
                    await producer.send_and_wait(topic.name, b"a")

    with cluster.faults.add("Produce", error="MESSAGE_TOO_LARGE", topic=topic.name) as fault:
        asyncio.run(with_aiokafka())
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
        with pytest.raises(KafkaPythonTooLargeError):
            producer.send(topic.name, b"a").get(TIMEOUT_S)
        producer.close()
        assert fault.hits == 2
    assert topic.all_records() == []


def test_a_fault_that_nothing_meets_says_so(cluster: Cluster) -> None:
    fault = cluster.faults.add("Produce", error="UNKNOWN_SERVER_ERROR", topic="nobody", times=3)
    text = r"Produce\(error=UNKNOWN_SERVER_ERROR, topic=nobody, times=3\) struck 0 of 2"
    with fault, pytest.raises(WaitTimeoutError, match=text):
        fault.wait(hits=2, timeout=0.01)


@pytest.mark.parametrize(
    ("api", "arguments", "message"),
    [
        ("Produze", {"delay": 1}, "there is no API 'Produze'; did you mean Produce"),
        ("Produce", {}, "a fault does something"),
        ("Produce", {"error": "NOT_LEADER"}, "no error 'NOT_LEADER'; did you mean NOT_"),
        ("Produce", {"error": 12345}, "no error 12345"),
        ("Produce", {"drop": "during"}, '"before" or "after"'),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(
    cluster: Cluster, api: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(KitError, match=message):
        cluster.faults.add(api, **arguments)


def test_the_nodes_are_named_if_there_is_no_such_node(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="there is no node 9; the nodes are 3000, 1"):
        cluster.faults.add("Produce", delay=1, node=9)
