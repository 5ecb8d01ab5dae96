"""Brokers of both kinds on one ensemble are killed, paused and cut off, and so are its servers, while clients work.

The victim leads all partitions, coordinates all groups and transactions, and is the controller, so that each of
these goes from one kind to the other.  Nothing is lost, and the logs are equal (M-B3 M-B5 M-D6 M-D8).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.verify.replication.brokers import await_none
from tests.verify.replication.recorded_load import TOPICS, RecordedLoad
from tests.verify.replication.replica_files import differences
from tests.verify.zookeeper.hosts_of_both_kinds import APACHE, LOGS, OURS, BothKindsOnHosts, on_hosts
from tools.nemesis.clients import CLASSIC
from tools.nemesis.cluster import System
from tools.nemesis.faults import Fault, Injector, Kind

KINDS: Mapping[str, tuple[System, ...]] = {
    "one-of-ours": (APACHE, OURS, APACHE),
    "one-of-its": (OURS, APACHE, OURS),
    "ours-alone": (OURS, OURS, OURS),
}
# A pause lasts until the clients have got further without the broker: longer than its session.
FAULTS = [
    (1, Kind.KILL),
    (2, Kind.PAUSE),
    (1, Kind.PAUSE),
    (2, Kind.ISOLATION),
    (3, Kind.PARTITION),
    (1, Kind.ISOLATION),
    (2, Kind.PARTITION),
    (2, Kind.KILL),
]


@pytest.mark.parametrize("systems", KINDS.values(), ids=list(KINDS))
def test_brokers_and_servers_are_struck(tmp_path: Path, systems: tuple[System, ...]) -> None:
    with on_hosts(tmp_path / "hosts", dict(enumerate(systems, 1))) as cluster:
        cluster.brokers.create(TOPICS)
        load = RecordedLoad(cluster.brokers.bootstrap, protocols=[CLASSIC])
        try:
            for victim, kind in FAULTS:
                _strike(cluster, load, victim, kind)
            for kind in (Kind.ZOOKEEPER_KILL, Kind.ZOOKEEPER_PAUSE):
                _strike_zookeeper(cluster, load, kind)
            cluster.brokers.await_whole("at the end")
            anomalies = load.finish(cluster.folders)
        finally:
            load.stop()
        assert anomalies == []
        await_none("the replicas are equal", lambda: differences(cluster.folders, LOGS))
        assert cluster.errors() == []


def _strike(cluster: BothKindsOnHosts, load: RecordedLoad, victim: int, kind: Kind) -> None:
    """All clients get further with the victim as leader and coordinator, without it, and after it is back."""
    injector = Injector(cluster.cluster)
    fault = Fault(kind, (victim,), 0, 0)
    step = f"({fault}, {cluster.cluster.nodes[victim].system})"
    cluster.brokers.await_whole(f"before {step}")
    cluster.lead_all(victim)
    load.await_step_led_by(cluster.brokers, victim, f"before {step}")
    injector.inject(fault)
    load.await_step(f"during {step}")
    injector.heal(fault)
    load.await_step(f"after {step}")
    assert all(node.is_up for node in cluster.cluster.nodes.values())


def _strike_zookeeper(cluster: BothKindsOnHosts, load: RecordedLoad, kind: Kind) -> None:
    """The server that leads the ensemble: brokers keep their sessions, and clients get further."""
    injector = Injector(cluster.cluster)
    fault = Fault(kind, (cluster.leader_of_zookeeper(),), 0, 0)
    cluster.brokers.await_whole(f"before {fault}")
    injector.inject(fault)
    load.await_step(f"during {fault}")
    injector.heal(fault)
    load.await_step(f"after {fault}")
