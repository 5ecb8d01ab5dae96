"""Groups and transactions over a broker of each kind: coordinators, partitions and clients on different ones.

Markers and verifications go from each kind of broker to the other (M-F3 M-G1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.base.hashing import partition_for_group
from barnabas.base.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from barnabas.client import NewTopic
from barnabas.client.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from barnabas.client.sync import Admin, Consumer, Producer
from tests.verify.quorum.mixed_cluster import APACHE, OURS, VERSIONS, MixedCluster, mixed_cluster, wait_for

BROKERS = {1: APACHE, 2: OURS}
INTERNAL_PARTITIONS = 4
SETTINGS = {
    "offsets.topic.num.partitions": str(INTERNAL_PARTITIONS),
    "transaction.state.log.num.partitions": str(INTERNAL_PARTITIONS),
}
TIMEOUT_S = 60


@pytest.fixture(scope="module", params=VERSIONS)
def cluster(
    request: pytest.FixtureRequest, oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    home = tmp_path_factory.mktemp("quorum_transactions") / "cluster"
    nodes = {101: OURS, **BROKERS}
    with mixed_cluster(oracle, request.param, home, nodes, is_dynamic=True, settings=SETTINGS) as cluster:
        with Admin({"bootstrap.servers": bootstrap(cluster)}) as admin:
            wait_for("both brokers live", lambda: len(admin.describe_cluster().nodes) == len(BROKERS))
            admin.describe_transactions(["nobody"])
            admin.describe_consumer_groups(["nobody"])
        yield cluster


def bootstrap(cluster: MixedCluster) -> str:
    return ",".join(cluster.members[number].bootstrap for number in BROKERS)


def coordinated_by(admin: Admin, broker: int, topic: str, prefix: str) -> str:
    """A group or transactional id whose coordinator is on this broker."""
    partitions = admin.describe_topics([topic])[topic].partitions
    leaders = {info.partition: info.leader for info in partitions}
    names = (f"{prefix}-{number}" for number in range(1_000))
    return next(name for name in names if leaders[partition_for_group(name, INTERNAL_PARTITIONS)] == broker)


def read_all(cluster: MixedCluster, group: str, topic: str, count: int, protocol: str) -> list[Any]:
    given = {
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "group.id": group,
        "group.protocol": protocol,
    }
    values: list[Any] = []
    with Consumer({"bootstrap.servers": bootstrap(cluster), **given}) as consumer:
        consumer.subscribe([topic])

        def enough() -> bool:
            values.extend(record.value for record in consumer.poll(timeout_ms=200))
            return len(values) >= count

        wait_for(f"{count} records", enough)
        consumer.commit()
    return values


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(
    ("coordinator", "other"), [(1, 2), (2, 1)], ids=["its-coordinator", "our-coordinator"]
)
def test_our_producer(cluster: MixedCluster, coordinator: int, other: int, protocol: str) -> None:
    """transaction.version 2: partitions are added by the brokers, by each kind with the other's coordinator."""
    topic = f"ours-{coordinator}-{protocol}"
    with Admin({"bootstrap.servers": bootstrap(cluster)}) as admin:
        admin.create_topics([NewTopic(topic, assignments={0: [1], 1: [2]})]).raise_first()
        name = coordinated_by(admin, coordinator, TRANSACTION_STATE, f"shop-{topic}")
        group = coordinated_by(admin, other, CONSUMER_OFFSETS, f"group-{topic}")
        reader = coordinated_by(admin, coordinator, CONSUMER_OFFSETS, f"reader-{topic}")
        with Producer({"bootstrap.servers": bootstrap(cluster), "transactional.id": name}) as producer:
            producer.init_transactions()
            for number in range(6):
                producer.begin_transaction()
                for index in range(2):
                    producer.send(topic, b"%d" % number, partition=index)
                offsets = {TopicPartition(topic, 0): OffsetAndMetadata(number + 1)}
                producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(group))
                if number % 2:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
        assert sorted(read_all(cluster, reader, topic, 6, protocol)) == sorted([b"0", b"2", b"4"] * 2)
        wait_for("its end", lambda: admin.describe_transactions([name])[name].state == "CompleteAbort")
        found = admin.list_consumer_group_offsets({group: None}, require_stable=True)[group]
        assert found[TopicPartition(topic, 0)].offset == 5  # type: ignore[union-attr]
    for kind in (APACHE, OURS):
        tool = cluster.tool_of(kind, "transactions", "--bootstrap-server", bootstrap(cluster), "list")
        (line,) = [line for line in tool.splitlines() if line.startswith(name)]
        assert line.split()[1] == str(coordinator)


@pytest.mark.parametrize("coordinator", [1, 2], ids=["its-coordinator", "our-coordinator"])
def test_librdkafka(cluster: MixedCluster, coordinator: int) -> None:
    """A client that adds its partitions itself: brokers only verify them."""
    import confluent_kafka

    topic = f"librdkafka-{coordinator}"
    with Admin({"bootstrap.servers": bootstrap(cluster)}) as admin:
        admin.create_topics([NewTopic(topic, assignments={0: [1], 1: [2]})]).raise_first()
        name = coordinated_by(admin, coordinator, TRANSACTION_STATE, f"shop-{topic}")
        reader = coordinated_by(admin, coordinator, CONSUMER_OFFSETS, f"reader-{topic}")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap(cluster), "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions(TIMEOUT_S)
    for number in range(6):
        producer.begin_transaction()
        for index in range(2):
            producer.produce(topic, b"%d" % number, partition=index)
        if number % 2:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
    assert sorted(read_all(cluster, reader, topic, 6, "classic")) == sorted([b"0", b"2", b"4"] * 2)
