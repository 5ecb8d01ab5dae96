"""Leaders of both kinds in one cluster are killed, paused and cut off while clients work.

Three combined nodes, each a host of its own: a namespace of the network whose packets can be dropped, for which these
checks need root.  Groups and transactions move between coordinators of both kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.verify.quorum.mixed_cluster import RELEASE, VERSIONS
from tests.verify.replication.brokers import Brokers, await_none
from tests.verify.replication.recorded_load import PARTITIONS, TOPICS, RecordedLoad
from tests.verify.replication.replica_files import differences
from tools.nemesis.cluster import SETTINGS, Cluster, System
from tools.nemesis.faults import Fault, Injector, Kind
from tools.nemesis.hosts import Hosts

OURS = System()
# Which nodes are ours: one among two of Apache Kafka, and the other way round.
KINDS: Mapping[str, tuple[bool, ...]] = {
    "one-of-ours": (False, True, False),
    "one-of-its": (True, False, True),
}
# Every fault strikes each kind.  One that is cut off by a partition still hears the clients.
FAULTS = [
    (1, Kind.KILL),
    (2, Kind.PAUSE),
    (3, Kind.PARTITION),
    (1, Kind.PAUSE),
    (2, Kind.ISOLATION),
    (1, Kind.ISOLATION),
    (2, Kind.PARTITION),
    (2, Kind.KILL),
]
LOGS = [
    *PARTITIONS,
    *(("__consumer_offsets", number) for number in range(int(SETTINGS["offsets.topic.num.partitions"]))),
    *(
        ("__transaction_state", number)
        for number in range(int(SETTINGS["transaction.state.log.num.partitions"]))
    ),
]


@pytest.mark.parametrize("are_ours", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("version", VERSIONS)
def test_leaders_of_both_kinds_are_struck(tmp_path: Path, version: str, are_ours: tuple[bool, ...]) -> None:
    systems = {n: OURS if is_ours else System(version) for n, is_ours in enumerate(are_ours, 1)}
    with mixed_hosts(tmp_path, systems) as cluster:
        hosts = cluster.hosts.hosts
        brokers = Brokers({number: (host.address, host.broker_port) for number, host in hosts.items()})
        brokers.create(TOPICS)
        folders = [node.data for node in cluster.nodes.values()]
        load = RecordedLoad(brokers.bootstrap)
        try:
            for victim, kind in FAULTS:
                _strike(cluster, brokers, load, victim, kind)
            brokers.await_whole("at the end")
            anomalies = load.finish(folders)
        finally:
            load.stop()
        assert anomalies == []
        await_none("the replicas are equal", lambda: differences(folders, LOGS))
        assert _errors(cluster) == []


def _strike(cluster: Cluster, brokers: Brokers, load: RecordedLoad, victim: int, kind: Kind) -> None:
    """All clients get further with the victim as leader and coordinator, without it, and after it is back."""
    injector = Injector(cluster)
    fault = Fault(kind, (victim,), 0, 0)
    step = f"({fault}, {cluster.nodes[victim].system})"
    brokers.await_whole(f"before {step}")
    load.await_step_led_by(brokers, victim, f"before {step}")
    injector.inject(fault)
    load.await_step(f"during {step}")
    injector.heal(fault)
    load.await_step(f"after {step}")
    assert all(node.is_up for node in cluster.nodes.values())


def _errors(cluster: Cluster) -> list[str]:
    """In the logs of our nodes."""
    return [
        f"node {node.id}: {line}"
        for node in cluster.nodes.values()
        if node.system is OURS
        for line in node.log.read_text("utf-8").splitlines()
        if " ERROR " in line or "Traceback" in line
    ]


@contextmanager
def mixed_hosts(folder: Path, systems: Mapping[int, System]) -> Iterator[Cluster]:
    """A running cluster of these nodes; it is down when this ends."""
    with Hosts(folder, len(systems)) as hosts:
        assert hosts.filter is not None, f"nodes cannot be cut off here: {hosts.lacking}"
        cluster = Cluster(systems, hosts, folder, RELEASE)
        try:
            cluster.up()
            yield cluster
        finally:
            cluster.down()
