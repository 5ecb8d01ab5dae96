"""Two faults of librdkafka 2.16, shown on clusters of Apache Kafka and of ours: both answer it alike.

The nemesis meets both.  Once one of these tests fails because librdkafka was mended, what docs/nemesis.md says
about it can go, and the nemesis need not allow for it any more (M-D5, reliability.md).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from barnabas.base.errors import ErrorCode
from tests.verify.quorum.mixed_cluster import APACHE, OURS, PATIENCE_S, MixedCluster, mixed_cluster, wait_for
from tests.verify.replication.produce_gate import Gate, ProduceGate

VERSION = "4.1.0"
BROKERS = (1, 2, 3)
RELAY_PORTS = 300
TOPIC = "written"
GROUP = "copies"
SETTINGS = {
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    # A client that hangs outlives its cluster, and may meet the next one at the same address.
    "auto.create.topics.enable": "false",
}
TIME_LIMIT_S = 5.0
# So much later, a call with that limit hangs.
HANGS_S = 30.0
ALL_KINDS = pytest.mark.parametrize("kind", [APACHE, OURS])


def cluster_of(oracle: Callable[..., Any], home: Path, kind: str, **options: Any) -> Any:
    kinds = dict.fromkeys((101, *BROKERS), kind)
    return mixed_cluster(oracle, VERSION, home, kinds, is_dynamic=True, settings=SETTINGS, **options)


def create(cluster: MixedCluster, partitions: int) -> None:
    """The topic, until all its replicas are in sync."""
    topics = [{"name": TOPIC, "num_partitions": partitions, "replication_factor": len(BROKERS)}]

    def is_created() -> bool:
        answer = cluster.ask(cluster.members[1], "CreateTopics", 7, topics=topics, timeout_ms=30_000)
        return answer is not None and answer["topics"][0]["error_code"] in (0, ErrorCode.TOPIC_ALREADY_EXISTS)

    wait_for("the topic is created", is_created)
    for number in BROKERS:
        wait_for("the ISR is full", partial(has_isr, cluster, number, set(BROKERS)))


def has_isr(cluster: MixedCluster, asked: int, wanted: set[int]) -> bool:
    """Whether every partition has these in-sync replicas, as one of the brokers knows it."""
    topic = described(cluster, asked)
    return topic is not None and all(set(each["isr_nodes"]) == wanted for each in topic["partitions"])


def described(cluster: MixedCluster, asked: int) -> Any:
    answer = cluster.ask(cluster.members[asked], "Metadata", 9, topics=[{"name": TOPIC}])
    return None if answer is None or answer["topics"][0]["error_code"] else answer["topics"][0]


def bootstrap_of(cluster: MixedCluster) -> str:
    return ",".join(cluster.members[number].address for number in BROKERS)


# ---------------------------------------------------------------------------------- a call that does not return


class Copies:
    """Transactions of one producer."""

    def __init__(self, bootstrap: str, transactional_id: str, consumer: Consumer) -> None:
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0}
        )
        self.producer.init_transactions(PATIENCE_S)
        self._consumer = consumer

    def transact(self, limit_s: float | None = PATIENCE_S) -> None:
        """Without offsets if there is no limit."""
        self.producer.begin_transaction()
        for partition in range(len(BROKERS)):
            self.producer.produce(TOPIC, b"copy", partition=partition)
        if limit_s is not None:
            group = self._consumer.consumer_group_metadata()
            self.producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 1)], group, limit_s)
        self.producer.commit_transaction(PATIENCE_S)

    def try_to_transact(self) -> None:
        # It is let go when the cluster is stopped.
        with suppress(KafkaException):
            self.transact(TIME_LIMIT_S)


@ALL_KINDS
def test_send_offsets_hangs_once_the_group_coordinator_is_gone(
    oracle: Callable[..., Any], tmp_path: Path, kind: str
) -> None:
    """librdkafka issues 5511 and 5456.

    It waits for a coordinator that it has decommissioned, until some connection changes its state; the time
    limit of the call is not looked at.
    """
    with cluster_of(oracle, tmp_path / "cluster", kind) as cluster:
        bootstrap = bootstrap_of(cluster)
        create(cluster, len(BROKERS))
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
        copies = Copies(bootstrap, f"hanging-{kind}", consumer)
        copies.transact()
        coordinator = cluster.ask(
            cluster.members[1], "FindCoordinator", 4, key_type=0, coordinator_keys=[GROUP]
        )["coordinators"][0]["node_id"]
        cluster.kill(coordinator)
        wait_for("metadata lacks it", lambda: coordinator not in copies.producer.list_topics().brokers)
        # Its connections are up again: nothing changes any more.
        copies.transact(limit_s=None)
        hanging = threading.Thread(target=copies.try_to_transact, daemon=True)
        hanging.start()
        hanging.join(TIME_LIMIT_S + HANGS_S)
        Copies(bootstrap, f"returning-{kind}", consumer).transact()
        assert hanging.is_alive(), "librdkafka is mended"


# ---------------------------------------------------------------------------------- a record that is sent twice


@ALL_KINDS
def test_a_record_of_unknown_outcome_is_sent_again_with_a_new_epoch(
    oracle: Callable[..., Any], tmp_path: Path, kind: str
) -> None:
    """librdkafka takes a record for not written if a retry was refused, whatever became of its first attempt.

    The first is written, its acknowledgement lost.  Its retry and the second are refused, for want of
    replicas; these are back when the third arrives, which has a sequence number too high.  librdkafka bumps
    its epoch, and sends all three with new sequence numbers.
    """
    with ExitStack() as stack:
        gates: dict[int, ProduceGate] = {}

        def relay(cluster: MixedCluster) -> None:
            for member in cluster.brokers():
                member.public_port = member.port + RELAY_PORTS
                gates[member.number] = ProduceGate(member.public_port, member.port)
                stack.callback(gates[member.number].close)

        cluster = stack.enter_context(cluster_of(oracle, tmp_path / "cluster", kind, prepare=relay))
        create(cluster, 1)
        leader = described(cluster, 1)["partitions"][0]["leader_id"]
        gate = gates[leader]
        followers = [number for number in BROKERS if number != leader]
        delivered: list[Any] = []
        producer = idempotent_producer(bootstrap_of(cluster))

        def send(value: bytes) -> None:
            producer.produce(TOPIC, value, on_delivery=lambda error, _: delivered.append(error))

        send(b"zeroth")
        assert producer.flush(PATIENCE_S) == 0
        gate.state = Gate.LOSING
        send(b"first")
        wait_for("its acknowledgement is lost", lambda: gate.state is Gate.SHUT)
        for number in followers:
            cluster.pause(number)
        wait_for("the ISR is too small", lambda: has_isr(cluster, leader, {leader}))
        send(b"second")
        send(b"third")
        gate.hold()
        wait_for("two are refused", lambda: gate.answers[-2:] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2)
        for number in followers:
            cluster.resume(number)
        wait_for("the ISR is full", lambda: has_isr(cluster, leader, set(BROKERS)))
        before = len(gate.answers)
        gate.open()
        assert producer.flush(PATIENCE_S) == 0
        assert delivered == [None] * 4
        assert gate.answers[before] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        values = read_all(bootstrap_of(cluster))
        assert values == [b"zeroth", b"first", b"first", b"second", b"third"], "librdkafka is mended"


def idempotent_producer(bootstrap: str) -> Producer:
    """Each record is a batch of its own, and no request times out while it is held."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "batch.num.messages": 1,
            "request.timeout.ms": PATIENCE_S * 1000,
            "socket.timeout.ms": PATIENCE_S * 1000,
            "message.timeout.ms": 10 * PATIENCE_S * 1000,
            "log_level": 0,
        }
    )


def read_all(bootstrap: str) -> list[bytes]:
    """The values of the topic's only partition, up to its end."""
    partition = TopicPartition(TOPIC, 0, 0)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([partition])
    values: list[bytes] = []
    try:
        _, end = consumer.get_watermark_offsets(partition, timeout=PATIENCE_S)
        last = -1
        while last < end - 1:
            message = consumer.poll(PATIENCE_S)
            assert message is not None and message.error() is None, message
            values.append(message.value() or b"")
            last = message.offset() or 0
    finally:
        consumer.close()
    return values
