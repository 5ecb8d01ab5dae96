"""A Spark standalone cluster: same result as on one machine, also when a worker is killed.  # M-I3"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.dataset as arrow_files
import pytest

from barnabas.client.admin.records import IsolationLevel, OffsetSpec
from barnabas.client.admin.topics import NewTopic
from barnabas.client.model import TopicPartition
from barnabas.client.sync import Admin, Consumer, Producer
from barnabas.testing.logs.generator import Shares
from tests.spark.logs import whole
from tests.verify.spark.support.spark_cluster import (
    Cluster,
    link_environment,
    pack_environment,
    standalone_cluster,
)
from tests.verify.spark.support.spark_cluster_query import KINDS, ROWS_A_BATCH
from tests.verify.spark.support.spark_kill_rounds import barnabas_broker

QUERY = Path(__file__).parent / "support" / "spark_cluster_query.py"
PARTITIONS = 3
ROWS = 20_000
BATCHES = ROWS // ROWS_A_BATCH
# Both queries have done so many when a worker is killed.
SOME_BATCHES = 2
LINES = 12_000
START_MS = 1_790_000_000_000
PATIENCE_S = 500

Rows = Counter[tuple[bytes, bytes, int]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def bootstrap(home: Path) -> Iterator[str]:
    with barnabas_broker(home / "broker") as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def archive(home: Path) -> Path:
    made = home / "environment.tar.gz"
    pack_environment(made)
    return made


@pytest.fixture(scope="module")
def cluster(home: Path) -> Iterator[Cluster]:
    with standalone_cluster(home / "spark") as made:
        yield made


# Drivers ----------------------------------------------------------------------------------------------------


class Driver:
    """A program that drives Spark, in a process and a folder of its own."""

    def __init__(self, folder: Path, command: Sequence[str], *, is_packed: bool) -> None:
        folder.mkdir()
        self._out = folder / "out.txt"
        environment = link_environment(folder) if is_packed else dict(os.environ)
        with self._out.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, *command], stdout=out, stderr=subprocess.STDOUT, cwd=folder, env=environment
            )

    def is_running(self) -> bool:
        return self._process.poll() is None

    def said(self) -> str:
        return self._out.read_text("utf-8")[-4000:]

    def finish(self) -> str:
        assert self._process.wait(PATIENCE_S) == 0, self.said()
        return self.said()


def query(
    home: Path, master: str, bootstrap: str, output: str, archive: Path | None, kind: str = "two"
) -> Driver:
    folder = home / f"driver-{output}"
    packed = "" if archive is None else str(archive)
    command = [str(QUERY), master, bootstrap, output, str(folder / "checkpoint"), packed, kind]
    return Driver(folder, command, is_packed=archive is not None)


def batches(home: Path, output: str) -> list[int]:
    """How many each of the two queries has done."""
    checkpoint = home / f"driver-{output}" / "checkpoint"
    return [
        len(list((checkpoint / topic / "commits").glob("[0-9]*"))) for topic in (output, f"{output}-counted")
    ]


# What is in the topics --------------------------------------------------------------------------------------


def read(bootstrap: str, topic: str) -> Rows:
    """Every committed row with its partition, counted."""
    found: Rows = Counter()
    parts: list[TopicPartition] = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    wanted: dict[TopicPartition, OffsetSpec | int] = dict.fromkeys(parts, OffsetSpec.LATEST)
    with Admin(bootstrap_servers=bootstrap) as admin:
        ends = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
    settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    with Consumer(settings, bootstrap_servers=bootstrap) as consumer:
        consumer.assign(parts)
        while any(consumer.position(part) < ends[part].offset for part in parts):
            for one in consumer.poll(timeout_ms=100):
                assert isinstance(one.key, bytes)
                assert isinstance(one.value, bytes)
                found[one.key, one.value, one.partition] += 1
    return found


def results(bootstrap: str, output: str) -> tuple[Rows, Rows]:
    """What each of the two queries wrote."""
    return read(bootstrap, output), read(bootstrap, f"{output}-counted")


def produce(bootstrap: str) -> Counter[str]:
    """The input, spread over some seconds; how many rows each second has of each kind."""
    true: Counter[str] = Counter()
    start_ms = int(time.time()) * 1000 - ROWS
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(ROWS):
            time_ms = start_ms + number
            producer.send("in", f"row {number}".encode(), key=str(number).encode(), timestamp_ms=time_ms)
            true[f"{time_ms // 1000}/{number % KINDS}"] += 1
        producer.flush()
    return true


# Tests ------------------------------------------------------------------------------------------------------


def test_log_aggregation_runs_on_a_cluster(
    home: Path, bootstrap: str, archive: Path, cluster: Cluster
) -> None:
    """By `barnabas pipeline run`: all that comes out is true, as it is on one machine."""
    whole.create_topics(bootstrap)
    truth = whole.write_and_collect(
        bootstrap, home / "logs", 3, LINES, START_MS, per_second=10, shares=Shares(hopeless=0.0)
    )
    chosen = whole.settings(bootstrap, home, LINES * 6 // 10)
    conf = {
        "spark.archives": f"{archive}#environment",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    run = ["-m", "barnabas", "pipeline", "run", "barnabas.spark.logs.pipeline", "--once"]
    run += ["--master", cluster.master]
    run += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    run += [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
    for sinks in whole.STEPS:
        only = [word for sink in sinks for word in ("--only", sink)]
        said = Driver(home / f"driver-{sinks[0]}", [*run, *only], is_packed=True).finish()
        assert "logs: done: " in said.splitlines()[-1]
    table = arrow_files.dataset(chosen["table"], format="parquet", partitioning="hive").to_table().to_pylist()
    rows = [(round(row["start"].timestamp() * 1000), row["service"], row["lines"]) for row in table]
    whole.compare(bootstrap, truth, rows)


def test_a_cluster_gives_what_one_machine_gives_also_with_second_copies_and_without_a_worker(
    home: Path, bootstrap: str, archive: Path, cluster: Cluster
) -> None:
    outputs = ("local", "cluster", "second-copy", "survivor")
    topics = ["in", *outputs, *(f"{output}-counted" for output in outputs)]
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, num_partitions=PARTITIONS) for name in topics]).raise_first()
    true = produce(bootstrap)
    query(home, "local[2]", bootstrap, "local", None).finish()
    expected = each, counts = results(bootstrap, "local")
    assert len(each) == each.total() == ROWS
    # All counts come again after each batch; they only grow.
    last: dict[str, int] = {}
    for key, value, _ in counts:
        last[key.decode()] = max(last.get(key.decode(), 0), int(value))
    assert last == true
    query(home, cluster.master, bootstrap, "cluster", archive).finish()
    assert results(bootstrap, "cluster") == expected
    query(home, cluster.master, bootstrap, "second-copy", archive, "speculation").finish()
    assert read(bootstrap, "second-copy") == each
    kill_in_the_middle(home, cluster, query(home, cluster.master, bootstrap, "survivor", archive))
    assert results(bootstrap, "survivor") == expected


def kill_in_the_middle(home: Path, cluster: Cluster, driver: Driver) -> None:
    """A worker is killed; the state that it had comes from the checkpoint."""
    deadline = time.monotonic() + PATIENCE_S
    while min(batches(home, "survivor")) < SOME_BATCHES:
        assert driver.is_running(), driver.said()
        assert time.monotonic() < deadline, "the queries did nothing"
        time.sleep(0.05)
    cluster.kill_worker()
    assert max(batches(home, "survivor")) < BATCHES, "a query was over before the worker was killed"
    driver.finish()
