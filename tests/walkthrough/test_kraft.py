"""Walk-through 5: three nodes with `controller.quorum.voters`, from `storage random-uuid` to a dead controller."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client import TopicPartition
from barnabas.client.sync import Consumer, Producer
from tests.walkthrough.nodes import Cluster, Node, barnabas, cluster_of, combined, create, eventually


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    with cluster_of(tmp_path, combined(3)) as cluster:
        yield cluster


def test_the_walk_through(three: Cluster) -> None:
    # M-C3 M-C8 M-C5 M-C9 M-C11
    three.barnabas(
        "topics", "--create", "--topic", "kafka_test", "--partitions", "3", "--replication-factor", "2"
    )
    described = three.barnabas("topics", "--describe", "--topic", "kafka_test")
    assert "PartitionCount: 3\tReplicationFactor: 2" in described
    placed = re.findall(r"Partition: (\d)\tLeader: (\d)\tReplicas: (\d),(\d)\tIsr: ", described)
    assert [partition for partition, *_ in placed] == ["0", "1", "2"]
    for _, leader, first, second in placed:
        assert leader == first != second
        assert {first, second} <= {"1", "2", "3"}
    _produce_and_consume(three)
    _look_into_the_log(three)
    _look_with_the_shell(three)
    _kill_the_active_controller(three)


def _produce_and_consume(cluster: Cluster) -> None:
    lines = [f"hello {number}" for number in range(30)]
    cluster.barnabas("console-producer", "--topic", "kafka_test", given="\n".join(lines) + "\n")
    printed = cluster.barnabas(
        "console-consumer", "--topic", "kafka_test", "--from-beginning", "--max-messages", str(len(lines))
    )
    assert sorted(printed.splitlines()) == sorted(lines)


def _look_into_the_log(cluster: Cluster) -> None:
    """C9, on the files of a running node.  The logs of all nodes are the same bytes."""
    # M-C9 M-C11
    logs = [
        node.data / "__cluster_metadata-0" / "00000000000000000000.log" for node in cluster.nodes.values()
    ]
    eventually(lambda: len({_without_padding(log) for log in logs}) == 1)
    files = ",".join(str(logs[0].with_suffix(suffix)) for suffix in (".index", ".log"))
    dumped = barnabas(
        "dump-log", "--cluster-metadata-decoder", "--skip-record-metadata", "--files", files
    ).stdout
    assert re.search(r'"type":"TOPIC_RECORD".*"name":"kafka_test"', dumped)
    assert dumped.count('"type":"REGISTER_BROKER_RECORD"') == 3
    assert '"type":"PARTITION_RECORD"' in dumped


def _without_padding(log: Path) -> bytes:
    return log.read_bytes().rstrip(b"\0")


def _look_with_the_shell(cluster: Cluster) -> None:
    # M-C9
    log = str(cluster[2].data / "__cluster_metadata-0" / "00000000000000000000.log")

    def shell(*words: str) -> str:
        done = barnabas("metadata-shell", "--snapshot", log, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    # M-C11: the same log gives the same image
    eventually(lambda: len({_trees(node) for node in cluster.nodes.values()}) == 1, "the images differ")
    assert shell("ls", "/image/topics/byName").split() == ["__consumer_offsets", "kafka_test"]
    assert shell("cat", "/image/topics/byName/kafka_test/0").startswith("PartitionRegistration(replicas=[")
    assert shell("ls", "/image/cluster/brokers").split() == ["1", "2", "3"]
    assert "kafka_test" in shell("find", "/image/topics")
    assert (
        "kafka_test"
        in barnabas("metadata-shell", "--snapshot", log, given="cd image\ntree topics\nexit\n").stdout
    )


def _trees(node: Node) -> str:
    """Topics and brokers; the offset of the image moves on with every idle record."""
    log = str(node.data / "__cluster_metadata-0" / "00000000000000000000.log")
    session = "tree /image/topics\ntree /image/cluster\nexit\n"
    return barnabas("metadata-shell", "--snapshot", log, given=session).stdout


def _kill_the_active_controller(cluster: Cluster) -> None:
    """Clients of the other nodes do not notice: no call of theirs fails."""
    # M-C8 M-C5
    active = cluster.leader()
    others = [node_id for node_id in cluster.nodes if node_id != active]
    with (
        cluster.admin(*others) as admin,
        Producer(bootstrap_servers=cluster.bootstrap(*others)) as producer,
        Consumer(bootstrap_servers=cluster.bootstrap(*others), auto_offset_reset="earliest") as consumer,
    ):
        assert create(admin, "before") is None
        led = _partition_led_by(admin, others)
        producer.send(led.topic, b"before", partition=led.partition).result(60)
        cluster[active].kill()
        assert create(admin, "after") is None
        producer.send(led.topic, b"after", partition=led.partition).result(60)
        consumer.assign([led])
        consumer.seek_to_beginning(led)
        read: list[object] = []
        while read[-2:] != [b"before", b"after"]:
            read += [record.value for record in consumer.poll(timeout_ms=500)]
        assert cluster.leader(of=others) in others
        assert {"before", "after", "kafka_test"} <= set(admin.list_topics())


def _partition_led_by(admin: object, node_ids: list[int]) -> TopicPartition:
    described = admin.describe_topics(["kafka_test"])["kafka_test"]  # type: ignore[attr-defined]
    return next(
        TopicPartition("kafka_test", partition.partition)
        for partition in described.partitions
        if partition.leader in node_ids
    )
