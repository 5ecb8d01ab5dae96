"""Log directories of brokers in a cluster: a replica moves between them, and one of them fails (KIP-113, KIP-858)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client import NewTopic
from barnabas.client.sync import Producer
from tests.walkthrough.nodes import Cluster, eventually

PARTITIONS = 4
SEGMENT_BYTES = 1 << 20
VALUE = bytes(64 << 10)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, {1: "broker", 2: "broker", 3: "controller"})
    for node in cluster.nodes.values():
        if node.is_broker:
            node.options["log.dirs"] = f"{node.data},{node.folder / 'extra'}"
    try:
        yield cluster.up()
    finally:
        cluster.down()


def states(cluster: Cluster) -> dict[int, tuple[int | None, tuple[int, ...]]]:
    """Leader and ISR by partition."""
    with cluster.admin() as admin:
        described = admin.describe_topics(["t"])["t"]
    return {info.partition: (info.leader, tuple(sorted(info.isr))) for info in described.partitions}


def in_folder(folder: Path) -> set[int]:
    return {int(path.name.rpartition("-")[2]) for path in folder.glob("t-[0-9]")}


@pytest.mark.slow
def test_a_failed_directory_hands_its_leaderships_on_while_the_broker_stays(pair: Cluster) -> None:
    """M-E5, M-D6: the other directory of the broker goes on, and nothing that was acknowledged is lost."""
    with pair.admin() as admin:
        topic = NewTopic(
            "t",
            assignments=dict.fromkeys(range(PARTITIONS), (1, 2)),
            configs={"segment.bytes": str(SEGMENT_BYTES)},
        )
        admin.create_topics([topic]).raise_first()
    broker = pair[1]
    extra = broker.folder / "extra"
    eventually(lambda: len(in_folder(broker.data)) == len(in_folder(extra)) == PARTITIONS // 2)
    lost, kept = in_folder(extra), in_folder(broker.data)
    _move_replica(pair, min(kept), pair[2].folder / "extra")
    shutil.rmtree(extra)
    # Each fills more than a segment: the next one cannot be created.
    config = {"bootstrap.servers": pair.bootstrap(), "acks": "all", "delivery.timeout.ms": 60_000}
    with Producer(config) as producer:
        sent = [
            producer.send("t", value=VALUE, partition=partition)
            for partition in range(PARTITIONS)
            for _ in range(20)
        ]
        producer.flush()
        assert len({(result.partition, result.offset) for result in (one.result(60) for one in sent)}) == len(
            sent
        )
    broker.says("extra")
    eventually(
        lambda: all(states(pair)[partition] == (2, (2,)) for partition in lost),
        f"the leaderships of {lost} did not move",
    )
    assert all(states(pair)[partition] == (1, (1, 2)) for partition in kept)
    assert broker.is_up
    listed = pair.barnabas("log-dirs", "--describe", "--broker-list", "1").splitlines()[-1]
    (directories,) = (each["logDirs"] for each in json.loads(listed)["brokers"])
    errors = {Path(each["logDir"]).name: each["error"] for each in directories}
    assert errors["data"] is None
    assert "KafkaStorageException" in errors["extra"]
    explained = json.loads(pair.barnabas("explain", "--partitions", "-o", "json", "--topic", "t"))
    under = [found for found in explained if found["cause"] == "under-replicated"]
    assert {found["partition"] for found in under} == {f"t-{partition}" for partition in lost}
    assert all("the log directory is offline" in found["evidence"][0] for found in under)


def _move_replica(cluster: Cluster, partition: int, target: Path) -> None:
    """The replica of broker 2 moves to this directory; the broker reports that to the controller."""
    plan = {
        "version": 1,
        "partitions": [
            {"topic": "t", "partition": partition, "replicas": [1, 2], "log_dirs": ["any", str(target)]}
        ],
    }
    path = cluster.folder / "plan.json"
    path.write_text(json.dumps(plan), "utf-8")
    file = ("--reassignment-json-file", str(path))
    cluster.barnabas("reassign-partitions", *file, "--execute")
    name = f"t-{partition}"
    eventually(
        lambda: (
            f"Reassignment of replica {name}-2 completed successfully."
            in cluster.barnabas("reassign-partitions", *file, "--verify")
        ),
        "the replica did not move",
    )
    assert (target / name).is_dir()
    assert states(cluster)[partition] == (1, (1, 2))
