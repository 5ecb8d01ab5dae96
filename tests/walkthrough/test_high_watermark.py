"""Walk-through 4: what consumers see, who holds it back, and what becomes of records above it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.client import NewTopic, TopicPartition
from barnabas.client.errors import KafkaError
from barnabas.client.sync import Consumer, Producer
from tests.broker.replication.load import batches_of, isr_of, wait_for_isr, wait_until_equal
from tests.walkthrough.nodes import Cluster, eventually
from tests.walkthrough.proxy import ProxiedFollowers

# One cluster for all of them.
pytestmark = pytest.mark.xdist_group("high watermark")

TOPIC = "watermark"
ALL = {1, 2, 3}
# A busy machine is not taken for a dead broker, nor a follower that is held back for one that lags.
PATIENT = {"broker.session.timeout.ms": "6000", "replica.lag.time.max.ms": "60000"}
HASTY = {**PATIENT, "replica.lag.time.max.ms": "1500"}
CARELESS = {"acks": 1, "enable.idempotence": False}


@pytest.fixture(scope="module")
def followers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedFollowers]:
    folder = tmp_path_factory.mktemp("watermark")
    with ProxiedFollowers(folder, 3, {1: PATIENT, 2: PATIENT, 3: HASTY}) as proxied:
        yield proxied


def create(cluster: Cluster, topic: str, *replicas: int) -> None:
    with cluster.admin() as admin:
        admin.create_topics([NewTopic(topic, assignments={0: list(replicas)})]).raise_first()
    wait_for_isr(cluster, topic, ALL)


def send(cluster: Cluster, topic: str, *values: bytes, **config: object) -> list[int]:
    """The offsets of these records, which are acknowledged one after another."""
    given = {"bootstrap.servers": cluster.bootstrap(), "linger.ms": 0, **CARELESS, **config}
    given = {name.replace("_", "."): value for name, value in given.items()}
    with Producer(given) as producer:
        return [producer.send(topic, value=value).result(60).offset for value in values]


def ends(cluster: Cluster, topic: str) -> dict[int, int]:
    """The log end offset of each replica: the records in its log."""
    nodes = [node for node in cluster.nodes.values() if node.is_up]
    return {node.id: _count(batches_of(node, topic, 0)) for node in nodes}


def _count(content: bytes) -> int:
    from barnabas.batch.view import batches

    return max((batch.next_offset for batch in batches(content)), default=0)


def seen(cluster: Cluster, topic: str) -> list[int]:
    """The offsets that a consumer gets."""
    partition = TopicPartition(topic, 0)
    with Consumer({"bootstrap.servers": cluster.bootstrap(), "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        offsets: list[int] = []

        def has_all() -> bool:
            offsets.extend(record.offset for record in consumer.poll(timeout_ms=100))
            return consumer.position(partition) >= end

        eventually(has_all)
        # What it should not get would come now.
        offsets.extend(record.offset for record in consumer.poll(timeout_ms=200))
    return offsets


def high_watermark(cluster: Cluster, topic: str) -> int:
    """The latest offset, for consumers."""
    partition = TopicPartition(topic, 0)
    with Consumer({"bootstrap.servers": cluster.bootstrap()}) as consumer:
        offset: int = consumer.end_offsets([partition])[partition]
        return offset


def leader_becomes(cluster: Cluster, topic: str, leader: int) -> None:
    def leads() -> bool:
        try:
            return isr_of(cluster, topic)[0][0] == leader
        except (KafkaError, OSError):
            return False

    eventually(leads, f"broker {leader} does not lead")


def test_the_slowest_replica_of_the_isr_holds_it_back(followers: ProxiedFollowers) -> None:
    # M-D2
    cluster, topic = followers.cluster, "slowest"
    create(cluster, topic, 1, 2, 3)
    assert send(cluster, topic, *[b"%d" % number for number in range(4)], acks="all") == [0, 1, 2, 3]
    followers.hold(1, 3)
    assert send(cluster, topic, b"4") == [4]
    eventually(lambda: ends(cluster, topic) == {1: 5, 2: 5, 3: 4})
    assert seen(cluster, topic) == [0, 1, 2, 3]
    # The slow follower fetches: the high watermark moves.
    followers.hold(1)
    eventually(lambda: high_watermark(cluster, topic) == 5)
    assert send(cluster, topic, b"5", acks="all") == [5]
    followers.hold(1, 3)
    assert send(cluster, topic, b"6", b"7", b"8") == [6, 7, 8]
    eventually(lambda: ends(cluster, topic) == {1: 9, 2: 9, 3: 6})
    assert seen(cluster, topic) == [0, 1, 2, 3, 4, 5]
    followers.hold(1)
    eventually(lambda: high_watermark(cluster, topic) == 9)
    assert seen(cluster, topic) == list(range(9))


def test_records_above_it_vanish_with_their_leader(followers: ProxiedFollowers) -> None:
    """acks=1 had acknowledged them; what acks=all waits for is sent again, to the next leader."""
    # M-D5 M-D6 M-D8
    cluster = followers.cluster
    create(cluster, TOPIC, 1, 2, 3)
    send(cluster, TOPIC, b"kept 0", b"kept 1", acks="all")
    followers.hold(1, 2, 3)
    assert send(cluster, TOPIC, b"lost 2", b"lost 3", b"lost 4") == [2, 3, 4]
    assert ends(cluster, TOPIC) == {1: 5, 2: 2, 3: 2}
    assert seen(cluster, TOPIC) == [0, 1]
    cluster[1].kill()
    followers.hold(1)
    leader_becomes(cluster, TOPIC, 2)
    assert send(cluster, TOPIC, b"kept 2", acks="all") == [2]
    assert seen(cluster, TOPIC) == [0, 1, 2]
    cluster.start(1)
    cluster.wait_for_brokers()
    wait_for_isr(cluster, TOPIC, ALL)
    content = wait_until_equal(list(cluster.nodes.values()), TOPIC, 0)
    assert b"lost" not in content
    assert cluster[1].says("; truncating to 2")
    _retry_at_the_next_leader(followers)


def _retry_at_the_next_leader(followers: ProxiedFollowers) -> None:
    cluster = followers.cluster
    followers.hold(2, 1, 3)
    given = {"acks": "all", "linger.ms": 0, "request.timeout.ms": 3_000, "delivery.timeout.ms": 90_000}
    with Producer({"bootstrap.servers": cluster.bootstrap(), **given}) as producer:
        sent = producer.send(TOPIC, value=b"again 3")
        eventually(lambda: ends(cluster, TOPIC) == {1: 3, 2: 4, 3: 3}, "it is on its leader alone")
        assert not sent.done
        cluster[2].kill()
        followers.hold(2)
        leader_becomes(cluster, TOPIC, 1)
        assert sent.result(90).offset == 3
    assert seen(cluster, TOPIC) == [0, 1, 2, 3]
    cluster.start(2)
    cluster.wait_for_brokers()
    wait_for_isr(cluster, TOPIC, ALL)
    content = wait_until_equal(list(cluster.nodes.values()), TOPIC, 0)
    assert content.count(b"again 3") == 1


def test_a_silent_follower_leaves_the_isr_and_comes_back(followers: ProxiedFollowers) -> None:
    # M-D1
    cluster, topic = followers.cluster, "silent"
    create(cluster, topic, 3, 1, 2)
    send(cluster, topic, b"0", acks="all")
    followers.hold(3, 1)
    send(cluster, topic, b"1")
    eventually(lambda: isr_of(cluster, topic)[0] == (3, {3, 2}), "broker 1 stays in the ISR")
    assert cluster[3].says("[1] leave the ISR")
    eventually(lambda: high_watermark(cluster, topic) == 2, "it waits for a replica that has left")
    assert ends(cluster, topic)[1] == 1
    followers.hold(3)
    wait_for_isr(cluster, topic, ALL)
    assert ends(cluster, topic) == {1: 2, 2: 2, 3: 2}
