"""A Spark standalone cluster: same result as on one machine, also when a worker is killed.  # M-I3"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.admin.records import IsolationLevel, OffsetSpec
from barnabas.client.admin.topics import NewTopic
from barnabas.client.model import TopicPartition
from barnabas.client.sync import Admin, Consumer, Producer
from tests.verify.spark_cluster import Cluster, link_environment, pack_environment, standalone_cluster
from tests.verify.spark_kill_rounds import barnabas_broker

QUERY = Path(__file__).parent / "spark_cluster_query.py"
PARTITIONS = 3
ROWS = 20_000
SOME = 3_000
PATIENCE_S = 500


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def bootstrap(home: Path) -> Iterator[str]:
    with barnabas_broker(home / "broker") as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            topics = ("in", "local", "cluster", "survivor")
            admin.create_topics([NewTopic(name, num_partitions=PARTITIONS) for name in topics]).raise_first()
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(ROWS):
                producer.send("in", f"row {number}".encode(), key=str(number).encode())
            producer.flush()
        yield broker.bootstrap


@pytest.fixture(scope="module")
def archive(home: Path) -> Path:
    made = home / "environment.tar.gz"
    pack_environment(made)
    return made


def start(
    home: Path, master: str, bootstrap: str, output: str, archive: Path | None
) -> subprocess.Popen[bytes]:
    """The query, in a process and a folder of its own."""
    folder = home / f"driver-{output}"
    folder.mkdir()
    environment = dict(os.environ) if archive is None else link_environment(folder)
    packed = "" if archive is None else str(archive)
    with (folder / "out.txt").open("wb") as out:
        return subprocess.Popen(
            [sys.executable, str(QUERY), master, bootstrap, output, str(folder / "checkpoint"), packed],
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
        )


def finish(home: Path, process: subprocess.Popen[bytes], output: str) -> None:
    assert process.wait(PATIENCE_S) == 0, (home / f"driver-{output}" / "out.txt").read_text()[-4000:]


def parts_of(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


def committed(bootstrap: str, topic: str) -> dict[TopicPartition, int]:
    wanted: dict[TopicPartition, OffsetSpec | int] = dict.fromkeys(parts_of(topic), OffsetSpec.LATEST)
    with Admin(bootstrap_servers=bootstrap) as admin:
        ends = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
        return {part: ends[part].offset for part in wanted}


def read(bootstrap: str, topic: str) -> Counter[tuple[object, object, int]]:
    """Every row with its partition, counted."""
    found: Counter[tuple[object, object, int]] = Counter()
    ends = committed(bootstrap, topic)
    settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    with Consumer(settings, bootstrap_servers=bootstrap) as consumer:
        consumer.assign(list(ends))
        while any(consumer.position(part) < end for part, end in ends.items()):
            found.update((one.key, one.value, one.partition) for one in consumer.poll(timeout_ms=100))
    return found


def test_a_cluster_gives_what_one_machine_gives_also_without_one_of_its_workers(
    home: Path, bootstrap: str, archive: Path
) -> None:
    finish(home, start(home, "local[2]", bootstrap, "local", None), "local")
    expected = read(bootstrap, "local")
    assert len(expected) == ROWS
    assert set(expected.values()) == {1}
    with standalone_cluster(home / "spark") as cluster:
        finish(home, start(home, cluster.master, bootstrap, "cluster", archive), "cluster")
        assert read(bootstrap, "cluster") == expected
        survive(home, cluster, bootstrap, archive)
    assert read(bootstrap, "survivor") == expected


def survive(home: Path, cluster: Cluster, bootstrap: str, archive: Path) -> None:
    """Kill a worker in the middle of a query."""
    process = start(home, cluster.master, bootstrap, "survivor", archive)
    deadline = time.monotonic() + PATIENCE_S
    while sum(committed(bootstrap, "survivor").values()) < SOME:
        assert process.poll() is None, (home / "driver-survivor" / "out.txt").read_text()[-4000:]
        assert time.monotonic() < deadline, "the query wrote nothing"
        time.sleep(0.05)
    cluster.kill_worker()
    assert process.poll() is None, "the query was over before the worker was killed"
    finish(home, process, "survivor")
