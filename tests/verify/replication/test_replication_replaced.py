"""A running cluster of Apache Kafka is replaced node by node in place, and back, while clients work.

Three combined nodes.  A node is stopped or killed, and the other software is started on the same folder with the same
server.properties; it catches up, the ISRs are whole again, it leads all partitions and coordinates all groups and
transactions, and the next one follows.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.base.ids import Uuid
from barnabas.config.values.properties import loads
from tests.verify.quorum.metadata_files import read_log
from tests.verify.quorum.mixed_cluster import (
    APACHE,
    OURS,
    RELEASE,
    VERSIONS,
    Member,
    MixedCluster,
)
from tests.verify.replication.brokers import INTERNAL_TOPICS, Brokers, await_none
from tests.verify.replication.recorded_load import PARTITIONS, TOPICS, RecordedLoad
from tests.verify.replication.replica_files import differences
from tools.ports import free_oracle_base

NODES = (1, 2, 3)
INTERNAL_PARTITIONS = 5
# The lines of Apache Kafka's own config/server.properties beside those that the oracle writes, and some that make
# logs roll and failures be noticed sooner.
SETTINGS = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1048576",
    "log.retention.check.interval.ms": "300000",
    "inter.broker.listener.name": "PLAINTEXT",
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "1000",
    "replica.lag.time.max.ms": "5000",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": str(INTERNAL_PARTITIONS),
    "transaction.state.log.num.partitions": str(INTERNAL_PARTITIONS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "auto.create.topics.enable": "false",
}
LOGS = [*PARTITIONS, *((topic, number) for topic in INTERNAL_TOPICS for number in range(INTERNAL_PARTITIONS))]


class Replacement(NamedTuple):
    """A node is ended with a signal, and comes back as another kind."""

    node: int
    kind: str
    signal: signal.Signals


# Each kind is stopped as well as killed.
REPLACEMENTS = [
    Replacement(1, OURS, signal.SIGTERM),
    Replacement(2, OURS, signal.SIGKILL),
    Replacement(3, OURS, signal.SIGTERM),
    Replacement(1, APACHE, signal.SIGKILL),
    Replacement(2, APACHE, signal.SIGTERM),
    Replacement(3, APACHE, signal.SIGKILL),
]


@pytest.mark.parametrize("version", VERSIONS)
def test_nodes_are_replaced_in_place_and_back(
    oracle: Callable[..., Any], tmp_path: Path, version: str
) -> None:
    with oracle_cluster(oracle, version, tmp_path / "cluster") as cluster:
        files = {member.name: member.properties.read_bytes() for member in cluster.members.values()}
        brokers = Brokers({number: ("localhost", member.port) for number, member in cluster.members.items()})
        brokers.create(TOPICS)
        folders = [member.home / "data" for member in cluster.members.values()]
        load = RecordedLoad(brokers.bootstrap)
        try:
            for replacement in REPLACEMENTS:
                _replace(cluster, brokers, load, replacement)
            anomalies = load.finish(folders)
        finally:
            load.stop()
        assert anomalies == []
        await_none("the replicas are equal", lambda: differences(folders, LOGS))
        await_none("the metadata logs are equal", lambda: _metadata_differences(cluster))
        assert {member.name: member.properties.read_bytes() for member in cluster.members.values()} == files
        assert cluster.faults() == []
        assert _unknown_options(cluster) == []


def _replace(cluster: MixedCluster, brokers: Brokers, load: RecordedLoad, replacement: Replacement) -> None:
    number, kind, ending = replacement
    member = cluster.members[number]
    step = f"({member.kind} {number} replaced by {kind})"
    load.await_step_led_by(brokers, number, f"before {step}")
    if ending is signal.SIGKILL:
        cluster.kill(number)
    else:
        cluster.stop(number)
    load.await_step(f"while a node is away {step}")
    member.kind = kind
    cluster.start(number)
    brokers.await_whole(step)
    load.await_step_led_by(brokers, number, f"after {step}")


def _metadata_differences(cluster: MixedCluster) -> list[str]:
    logs = {member.name: read_log(member.metadata, 1 << 62) for member in cluster.members.values()}
    end = min(log[-1].next_offset for log in logs.values())
    contents = {
        name: [batch.content for batch in log if batch.base_offset < end] for name, log in logs.items()
    }
    first = next(iter(contents.values()))
    return [name for name, content in contents.items() if content != first]


def _unknown_options(cluster: MixedCluster) -> list[str]:
    """Lines of Apache Kafka's server.properties that our nodes ignored."""
    return [
        line
        for member in cluster.members.values()
        for line in (member.home / "barnabas.log").read_text("utf-8").splitlines()
        if "is not known" in line
    ]


@contextmanager
def oracle_cluster(oracle: Callable[..., Any], version: str, home: Path) -> Iterator[MixedCluster]:
    """Three combined nodes that Apache Kafka alone has formatted, configured and started."""
    cluster = MixedCluster(oracle, version, home, free_oracle_base(), is_dynamic=False, settings=SETTINGS)
    settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    up = [
        "up",
        "--dir",
        str(home),
        "--mode",
        "kraft",
        "--brokers",
        str(len(NODES)),
        "--port",
        str(cluster.port),
    ]
    try:
        done = oracle(version, *up, "--release", RELEASE, *settings)
        assert done.returncode == 0, done.stderr[-3000:]
        for number in NODES:
            cluster.members[number] = _member(home / f"broker-{number}", number, cluster.port + number)
        yield cluster
    finally:
        cluster.down()
        oracle(version, "down", "--dir", str(home), "--kill")


def _member(home: Path, number: int, port: int) -> Member:
    directory_id = Uuid.parse(loads((home / "data" / "meta.properties").read_bytes())["directory.id"])
    pid = int((home / "pid").read_text("utf-8"))
    return Member(number, APACHE, "broker", port, home, directory_id, pid=pid)
