"""Three replicas on three real processes: equal logs, a killed leader, nothing acknowledged lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from barnabas.client import NewTopic, TopicPartition
from barnabas.client.errors import KafkaError
from barnabas.client.sync import Producer
from tests.broker.replication.load import (
    PATIENT,
    batches_of,
    isr_of,
    load_on,
    read_back,
    wait_for_isr,
    wait_until_equal,
)
from tests.walkthrough.nodes import Cluster, cluster_of, combined, create, eventually

# One cluster for all of them.
pytestmark = pytest.mark.xdist_group("three brokers")

ALL = {1, 2, 3}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    # A paused follower leaves the ISR by its lag, before the controller fences it.
    options = {
        "min.insync.replicas": "2",
        "replica.fetch.backoff.ms": "200",
        "replica.lag.time.max.ms": "1500",
    }
    with cluster_of(tmp_path_factory.mktemp("three"), combined(3), options) as cluster:
        yield cluster


def topic_on(cluster: Cluster, name: str, partitions: int = 3) -> str:
    with cluster.admin() as admin:
        assert create(admin, name, partitions, 3) is None
    wait_for_isr(cluster, name, ALL)
    return name


def test_followers_have_the_leaders_bytes(three: Cluster) -> None:
    # M-D2
    topic = topic_on(three, "copied")
    with Producer({"bootstrap.servers": three.bootstrap(), "acks": "all"}) as producer:
        for number in range(300):
            producer.send(topic, key=str(number).encode(), value=b"v" * number)
        producer.flush()
    for partition in range(3):
        assert wait_until_equal(list(three.nodes.values()), topic, partition)


def test_a_replica_is_added_and_records_are_deleted_everywhere(three: Cluster) -> None:
    """A reassignment adds two followers, which fetch all records; DeleteRecords waits for all replicas."""
    topic = "grown"
    with three.admin() as admin:
        assert create(admin, topic, 1, 1) is None
        with Producer({"bootstrap.servers": three.bootstrap(), "acks": "all"}) as producer:
            for number in range(200):
                producer.send(topic, value=b"v" * 1_000 + b"%d" % number)
            producer.flush()
        partition = TopicPartition(topic, 0)
        changed = admin.alter_partition_reassignments({partition: [1, 2, 3]})
        assert not changed.errors
        wait_for_isr(three, topic, ALL)
        wait_until_equal(list(three.nodes.values()), topic, 0)
        deleted = admin.delete_records({partition: 150})
        assert deleted[partition] == 150


def test_a_leader_is_killed_under_load(three: Cluster) -> None:
    """cluster.md 1, M-D5, M-D6: what was acknowledged is read back; the killed node rejoins the ISR."""
    topic = topic_on(three, "killed")
    with load_on(three, topic) as load:
        load.wait_for_more()
        victim = isr_of(three, topic)[0][0]
        three[victim].kill()
        load.wait_for_more()
        eventually(lambda: _leader_of(three, topic) not in (victim, -1, None))
        load.wait_for_more()
        three.start(victim)
        wait_for_isr(three, topic, ALL)
        load.wait_for_more()
    assert load.failed == []
    _check_nothing_lost(three, topic, load.acknowledged)


def test_a_slow_follower_leaves_the_isr_and_returns(three: Cluster) -> None:
    """M-D1, M-D2: below min.insync.replicas nothing is acknowledged, and the high watermark stands still."""
    topic = "slow"
    with three.admin() as admin:
        created = admin.create_topics([NewTopic(topic, 1, 3, configs={"min.insync.replicas": "3"})])
        assert not created.errors
    wait_for_isr(three, topic, ALL)
    leader = isr_of(three, topic)[0][0]
    paused = min(ALL - {leader, three.leader()})
    with Producer({"bootstrap.servers": three.bootstrap(leader), **PATIENT}) as producer:
        producer.send(topic, value=b"before").result(30)
        three[paused].signal(signal.SIGSTOP)
        try:
            # It does not lag before there is something that it does not have.
            one = {"bootstrap.servers": three.bootstrap(leader), "acks": 1, "enable.idempotence": False}
            with Producer(one) as quick:
                for _ in range(2):
                    quick.send(topic, value=b"quick").result(30)
            eventually(lambda: isr_of(three, topic, leader)[0][1] == ALL - {paused})
            assert three[leader].says(f"{topic}-0, leader in epoch 0): [{paused}] leave the ISR")
            impatient = {**PATIENT, "delivery.timeout.ms": 1_500, "request.timeout.ms": 1_000}
            with (
                Producer({"bootstrap.servers": three.bootstrap(leader), **impatient}) as hasty,
                pytest.raises(KafkaError),
            ):
                hasty.send(topic, value=b"refused").result(30)
        finally:
            three[paused].signal(signal.SIGCONT)
        wait_for_isr(three, topic, ALL)
        producer.send(topic, value=b"after").result(30)
    content = wait_until_equal(list(three.nodes.values()), topic, 0)
    assert (b"before" in content, b"refused" in content, b"after" in content) == (True, False, True)


def test_a_leader_that_returns_drops_what_was_never_committed(three: Cluster) -> None:
    """cluster.md 2, M-D5, M-D6: records that only the dead leader had are truncated by leader epoch."""
    topic = topic_on(three, "truncated", partitions=1)
    leader = isr_of(three, topic)[0][0]
    with Producer({"bootstrap.servers": three.bootstrap(), "acks": "all"}) as producer:
        producer.send(topic, value=b"committed").result(30)
    wait_until_equal(list(three.nodes.values()), topic, 0)
    others = sorted(ALL - {leader})
    # The followers are paused, so that the next records are on the leader alone when it dies.
    producer = Producer(
        {"bootstrap.servers": three.bootstrap(leader), "acks": 1, "enable.idempotence": False}
    )
    try:
        producer.send(topic, value=b"warm").result(30)
        wait_until_equal(list(three.nodes.values()), topic, 0)
        for node_id in others:
            three[node_id].signal(signal.SIGSTOP)
        before = len(batches_of(three[leader], topic, 0))
        # The first one answers a fetch that was waiting: it is in the followers' receive buffers.
        for number in range(5):
            producer.send(topic, value=b"lost %d" % number).result(30)
        assert len(batches_of(three[leader], topic, 0)) > before
    finally:
        three[leader].kill()
        for node_id in others:
            three[node_id].signal(signal.SIGCONT)
        producer.close(timeout_ms=0)
    eventually(lambda: _leader_of(three, topic) in others)
    with Producer({"bootstrap.servers": three.bootstrap(*others), "acks": "all"}) as patient:
        patient.send(topic, value=b"later").result(60)
    three.start(leader)
    wait_for_isr(three, topic, ALL)
    content = wait_until_equal(list(three.nodes.values()), topic, 0)
    assert b"lost 1" not in content
    assert b"lost 4" not in content
    assert [word in content for word in (b"committed", b"warm", b"later")] == [True, True, True]
    assert three[leader].says("; truncating to ")


def _leader_of(cluster: Cluster, topic: str) -> int | None:
    try:
        return isr_of(cluster, topic)[0][0]
    except (KafkaError, OSError):
        return None


def _check_nothing_lost(cluster: Cluster, topic: str, acknowledged: dict[tuple[int, int], int]) -> None:
    ends = {
        partition: 1 + max((offset for known, offset in acknowledged if known == partition), default=-1)
        for partition in range(3)
    }
    found = read_back(cluster.bootstrap(), topic, ends)
    wrong = {place: number for place, number in acknowledged.items() if found.get(place) != number}
    assert wrong == {}
    numbers = [number for place, number in found.items() if place in acknowledged]
    assert len(numbers) == len(set(numbers))
    for partition in range(3):
        assert wait_until_equal(list(cluster.nodes.values()), topic, partition) == batches_of(
            cluster[1], topic, partition
        )
