"""Coordinators whose topics have three replicas: another broker takes over, and clients go on (M-G1 M-F3)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.base.hashing import partition_for_group
from barnabas.base.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from barnabas.client import NewTopic
from barnabas.client.errors import KafkaError
from barnabas.client.model import TopicPartition
from barnabas.client.sync import Admin, Consumer, Producer
from tests.walkthrough.nodes import Cluster, cluster_of, combined, eventually
from tests.walkthrough.transfers import PATIENT, ConfluentTransactions, Transfers, our_transactions

INTERNAL_PARTITIONS = 3
OPTIONS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": str(INTERNAL_PARTITIONS),
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": str(INTERNAL_PARTITIONS),
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "replica.lag.time.max.ms": "5000",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_of(tmp_path_factory.mktemp("fail-over"), combined(3), OPTIONS) as running:
        with running.admin() as admin:
            admin.describe_transactions(["nobody"])
            admin.describe_consumer_groups(["nobody"])
        yield running


def replicated(admin: Admin, topic: str, partitions: int) -> None:
    admin.create_topics([NewTopic(topic, partitions, 3)]).raise_first()


def leader_of(cluster: Cluster, topic: str, key: str) -> int:
    """The coordinator's broker."""
    index = partition_for_group(key, INTERNAL_PARTITIONS)

    def known() -> int | None:
        try:
            with cluster.admin() as admin:
                described = admin.describe_topics([topic])[topic]
        except (KafkaError, KeyError, OSError):
            return None
        leader = described.partitions[index].leader
        return leader if leader is not None and leader > 0 and cluster[leader].is_up else None

    return eventually(known)


def in_sync(cluster: Cluster, *topics: str) -> None:
    """Waits until every partition has all its replicas in its ISR."""

    def whole() -> bool:
        try:
            with cluster.admin() as admin:
                described = admin.describe_topics(topics)
                return all(len(info.isr) == 3 for topic in topics for info in described[topic].partitions)
        except (KafkaError, KeyError, OSError):
            return False

    eventually(whole, f"not all replicas of {topics} are in sync")


Trouble = Callable[[Cluster, int, Callable[[], None]], None]


def killed(cluster: Cluster, node_id: int, meanwhile: Callable[[], None]) -> None:
    """kill -9, and a restart."""
    cluster[node_id].kill()
    meanwhile()
    cluster.start(node_id)
    cluster.wait_for_brokers()


def paused(cluster: Cluster, node_id: int, meanwhile: Callable[[], None]) -> None:
    """It takes itself for the coordinator still, when it goes on."""
    cluster[node_id].signal(signal.SIGSTOP)
    try:
        meanwhile()
    finally:
        cluster[node_id].signal(signal.SIGCONT)


TROUBLES = pytest.mark.parametrize("trouble", [killed, paused])


@pytest.mark.slow
@TROUBLES
@pytest.mark.parametrize("make", [our_transactions, ConfluentTransactions], ids=["barnabas", "librdkafka"])
def test_transactions_move_with_their_coordinator(
    cluster: Cluster, make: Callable[..., Any], trouble: Trouble
) -> None:
    # cluster.md 3, 23: nothing committed is lost, nothing is torn, nothing is there twice.
    topic = f"{trouble.__name__}-{make.__name__}".lower().replace("_", "-")
    with cluster.admin() as admin:
        replicated(admin, topic, 2)
    producer = make(cluster, topic)
    transfers = Transfers(producer, topic)
    transfers.start()
    transfers.wait_for_more()
    for _ in range(2):
        in_sync(cluster, topic, TRANSACTION_STATE)
        trouble(cluster, leader_of(cluster, TRANSACTION_STATE, topic), transfers.wait_for_more)
        transfers.wait_for_more()
    transfers.stop()
    producer.close()
    values = values_of(cluster, topic)
    assert sorted(values[0]) == sorted(values[1]) == sorted(transfers.committed)
    listed = cluster.barnabas(
        "transactions", "find-hanging", "--topic", topic, "--max-transaction-timeout", "0"
    )
    assert listed.splitlines()[1:] == []


def values_of(cluster: Cluster, topic: str) -> dict[int, list[Any]]:
    """All committed values of a topic with two partitions."""
    names = [TopicPartition(topic, index) for index in range(2)]
    values: dict[int, list[Any]] = {0: [], 1: []}
    given = {"auto.offset.reset": "earliest", "isolation.level": "read_committed", **PATIENT}
    with Consumer({"bootstrap.servers": cluster.bootstrap(), **given}) as consumer:
        consumer.assign(names)
        ends = consumer.end_offsets(names)

        def is_whole() -> bool:
            for record in consumer.poll(timeout_ms=100):
                values[record.partition].append(record.value)
            return all(consumer.position(name) >= ends[name] for name in names)

        eventually(is_whole)
    return values


@pytest.mark.slow
@TROUBLES
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_moves_with_its_coordinator(cluster: Cluster, protocol: str, trouble: Trouble) -> None:
    topic = group = f"group-{protocol}-{trouble.__name__}"
    with cluster.admin() as admin:
        replicated(admin, topic, 2)
    given = {"auto.offset.reset": "earliest", "group.protocol": protocol, **PATIENT}
    reader = Reader(Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": group, **given}), topic)
    reader.start()
    with Producer({"bootstrap.servers": cluster.bootstrap(), "acks": "all", **PATIENT}) as producer:
        sent = 0

        def receive() -> None:
            nonlocal sent
            for _ in range(5):
                sent += 1
                producer.send(topic, b"%d" % sent, partition=sent % 2).result(90)
            eventually(lambda: len(set(reader.values)) == sent or reader.failure is not None)
            assert reader.failure is None

        receive()
        for _ in range(2):
            in_sync(cluster, topic, CONSUMER_OFFSETS)
            commits = reader.commits
            eventually(lambda commits=commits: reader.commits > commits)  # type: ignore[misc]
            trouble(cluster, leader_of(cluster, CONSUMER_OFFSETS, group), receive)
            receive()
    reader.stop()
    # Nothing is missing; what was not committed when the coordinator was killed may have come twice.
    assert sorted(set(reader.values), key=int) == [b"%d" % number for number in range(1, sent + 1)]
    with cluster.admin() as admin:
        offsets = admin.list_consumer_group_offsets({group: None})[group]
        assert sum(offset.offset for offset in offsets.values() if offset is not None) == sent


class Reader(threading.Thread):
    """A member of a group that commits after every poll."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        super().__init__(daemon=True)
        self.values: list[Any] = []
        self.commits = 0
        self.failure: BaseException | None = None
        self._consumer = consumer
        self._topic = topic
        self._is_stopped = False

    def run(self) -> None:
        try:
            with self._consumer as consumer:
                consumer.subscribe([self._topic])
                while not self._is_stopped:
                    self.values.extend(record.value for record in consumer.poll(timeout_ms=100))
                    self._commit()
        except BaseException as error:
            self.failure = error

    def _commit(self) -> None:
        try:
            self._consumer.commit()
            self.commits += 1
        except KafkaError:
            pass  # with the next poll

    def stop(self) -> None:
        self._is_stopped = True
        self.join()
        assert self.failure is None, repr(self.failure)


@pytest.mark.slow
def test_a_marker_that_an_unclean_election_lost_is_found_and_its_transaction_aborted(
    cluster: Cluster,
) -> None:
    # cluster.md 24, M-D3, M-F3
    topic = "forgetful"
    configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    with cluster.admin() as admin:
        admin.create_topics([NewTopic(topic, assignments={0: [1, 2]}, configs=configs)]).raise_first()
    with our_transactions(cluster, topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"in doubt", partition=0).result(90)
        cluster[2].kill()
        leads(cluster, topic, 1, isr=[1])
        producer.commit_transaction()
    assert values_in(cluster, topic) == [b"in doubt"]
    cluster[1].kill()
    cluster.start(2)
    leads(cluster, topic, 2, isr=[2])
    assert values_in(cluster, topic) == [], "the records are there, the marker is not"
    where = ("--topic", topic, "--partition", "0")
    search = ("transactions", "find-hanging", "--topic", topic, "--max-transaction-timeout", "0")
    (found,) = [line.split() for line in cluster.barnabas(*search).splitlines()[1:]]
    assert found[:2] == [topic, "0"]
    cluster.barnabas("transactions", "abort", *where, "--start-offset", "0")
    assert cluster.barnabas(*search).splitlines()[1:] == []
    with our_transactions(cluster, topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"for sure", partition=0).result(90)
        producer.commit_transaction()
    eventually(lambda: values_in(cluster, topic) == [b"for sure"])
    cluster.start(1)
    cluster.wait_for_brokers()


def leads(cluster: Cluster, topic: str, node_id: int, isr: list[int]) -> None:
    """Waits until partition 0 has this leader and ISR."""

    def known() -> bool:
        try:
            with cluster.admin() as admin:
                info = admin.describe_topics([topic])[topic].partitions[0]
        except (KafkaError, KeyError, OSError):
            return False
        return (info.leader, list(info.isr)) == (node_id, isr)

    eventually(known, f"{topic}-0 is not led by {node_id} with the ISR {isr}")


def values_in(cluster: Cluster, topic: str) -> list[Any]:
    """What a read_committed consumer gets of partition 0, up to its last stable offset."""
    name = TopicPartition(topic, 0)
    values: list[Any] = []
    given = {"auto.offset.reset": "earliest", "isolation.level": "read_committed", **PATIENT}
    with Consumer({"bootstrap.servers": cluster.bootstrap(), **given}) as consumer:
        consumer.assign([name])
        end = consumer.end_offsets([name])[name]

        def is_whole() -> bool:
            values.extend(record.value for record in consumer.poll(timeout_ms=100))
            return consumer.position(name) >= end

        eventually(is_whole)
    return values
