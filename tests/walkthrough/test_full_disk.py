"""Disks that fill up and get room again, under real nodes: the broker stays, and nothing acknowledged is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from barnabas.client import NewTopic
from barnabas.client.errors import KafkaError
from barnabas.client.model import TopicPartition
from barnabas.client.sync import Consumer, Producer
from tests.walkthrough.nodes import COMBINED, Cluster, Node, barnabas, eventually

MIB = 1 << 20
VALUE_BYTES = 100_000
# Producers give up soon, so that a test sees what is refused.
IMPATIENT = {"acks": "all", "delivery.timeout.ms": 2_000, "request.timeout.ms": 1_000, "linger.ms": 0}
OPTIONS = {"log.segment.bytes": str(4 * MIB), "log.segment.delete.delay.ms": "100"}


class SmallDisk:
    """A file system in memory."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        if sys.platform != "linux" or os.geteuid() != 0:
            pytest.skip("only root on Linux can mount a small file system")
        mounted = self._mount(f"size={size}", "-t", "tmpfs", "tmpfs")
        if mounted.returncode:
            pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")

    def _mount(self, options: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["mount", "-o", options, *arguments, str(self.folder)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def enlarge(self, size: int) -> None:
        assert self._mount(f"remount,size={size}").returncode == 0

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)


@contextmanager
def cluster_on(tmp_path: Path, sizes: dict[int, int]) -> Iterator[tuple[Cluster, dict[int, SmallDisk]]]:
    """Each node, metadata log and all, on a disk of its own."""
    cluster = Cluster(tmp_path, dict.fromkeys(sizes, COMBINED), OPTIONS)
    disks: dict[int, SmallDisk] = {}
    with ExitStack() as stack:
        for node_id, size in sizes.items():
            disks[node_id] = SmallDisk(cluster[node_id].data, size)
            stack.callback(disks[node_id].unmount)
        for node in cluster.nodes.values():
            stack.callback(_end, node)
        cluster.up()
        yield cluster, disks


def _end(node: Node) -> None:
    if node.is_up:
        node.kill()


def value_of(number: int) -> bytes:
    return b"%d " % number + bytes(VALUE_BYTES)


def produce(producer: Producer, topic: str, first: int, count: int) -> tuple[list[bytes], list[KafkaError]]:
    """Sends one record after the other; returns the acknowledged values and the errors."""
    acknowledged: list[bytes] = []
    errors: list[KafkaError] = []
    for number in range(first, first + count):
        try:
            producer.send(topic, value_of(number), partition=0).result()
        except KafkaError as error:
            errors.append(error)
            break
        acknowledged.append(value_of(number))
    return acknowledged, errors


def read_all(cluster: Cluster, topic: str, wanted: list[bytes]) -> None:
    """Every wanted value is there, in this order; others may be: a producer that gave up does not know."""
    left = list(wanted)
    with Consumer(bootstrap_servers=cluster.bootstrap(), auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])

        def all_read() -> bool:
            for record in consumer.poll(timeout_ms=500):
                if left and record.value == left[0]:
                    left.pop(0)
            return not left

        eventually(all_read, f"{len(left)} of {len(wanted)} acknowledged records are missing")


@pytest.mark.slow
def test_one_node_refuses_serves_deletes_and_accepts_again(tmp_path: Path) -> None:
    with cluster_on(tmp_path, {1: 48 * MIB}) as (cluster, _), cluster.admin() as admin:
        admin.create_topics([NewTopic("keep", 1, 1), NewTopic("gone", 1, 1)]).raise_first()
        with Producer({"bootstrap.servers": cluster.bootstrap(), **IMPATIENT}) as producer:
            gone, _ = produce(producer, "gone", 0, 200)
            keep, errors = produce(producer, "keep", 0, 10_000)
            assert errors, "the disk never was full"
            cluster[1].says("is full: writes to its")
            assert cluster[1].is_up
            read_all(cluster, "keep", keep)
            read_all(cluster, "gone", gone)
            shown = barnabas("log-dirs", "--bootstrap-server", cluster.bootstrap(), "--describe")
            assert f"{cluster[1].data} of broker 1 is full: it refuses writes" in shown.stderr
            explained = barnabas("explain", "--partitions", "--bootstrap-server", cluster.bootstrap())
            assert "the disk of its leader, broker 1, is full" in explained.stdout
            admin.delete_topics(["gone"]).raise_first()
            cluster[1].says("has room again")
            more, errors = produce(producer, "keep", 50_000, 20)
            assert not errors
        read_all(cluster, "keep", keep + more)
        assert cluster[1].stop() == 0
        cluster.start(1)
        cluster.wait_for_brokers()
        read_all(cluster, "keep", keep + more)


@pytest.mark.slow
def test_of_three_nodes_the_full_one_hands_over_and_comes_back(tmp_path: Path) -> None:
    with (
        cluster_on(tmp_path, {1: 40 * MIB, 2: 200 * MIB, 3: 200 * MIB}) as (cluster, disks),
        cluster.admin(2, 3) as admin,
    ):
        topic = NewTopic("keep", assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": "2"})
        admin.create_topics([topic]).raise_first()

        def state() -> tuple[int | None, set[int]]:
            (info,) = admin.describe_topics(["keep"]).raise_first()["keep"].partitions
            return info.leader, set(info.isr)

        config = {**IMPATIENT, "bootstrap.servers": cluster.bootstrap(), "delivery.timeout.ms": 60_000}
        with Producer(config) as producer:
            keep, errors = produce(producer, "keep", 0, 800)
            assert not errors, "two replicas have space: writes go on"
            assert len(keep) == 800
            cluster[1].says("is full: writes to its")
            leader, _ = eventually(lambda: state() if state()[1] == {2, 3} else None)
            assert leader in (2, 3)
            assert all(node.is_up for node in cluster.nodes.values())
            disks[1].enlarge(200 * MIB)
            cluster[1].says("has room again")
            eventually(lambda: state()[1] == {1, 2, 3})
            more, errors = produce(producer, "keep", 50_000, 20)
            assert not errors
        read_all(cluster, "keep", keep + more)
        contents = [
            [(file.name, file.read_bytes()) for file in sorted((node.data / "keep-0").glob("*.log"))]
            for node in cluster.nodes.values()
        ]
        assert b"".join(data for _, data in contents[0])
        assert len({b"".join(data for _, data in content) for content in contents}) == 1
