"""A running cluster of Apache Kafka 3.9.1 on ZooKeeper is replaced broker by broker in place, and back.

A broker is stopped or killed, and the other software is started on the same folder with the same
server.properties, while clients work; it leads all partitions, coordinates all groups and transactions and is
the controller, and the next one follows (M-B1 M-B5 M-E1).
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import NamedTuple

from tests.verify.replication.brokers import await_none
from tests.verify.replication.recorded_load import TOPICS, RecordedLoad
from tests.verify.replication.replica_files import differences
from tests.verify.zookeeper.hosts_of_both_kinds import APACHE, LOGS, OURS, BothKindsOnHosts, on_hosts
from tools.nemesis.clients import CLASSIC
from tools.nemesis.cluster import System


class Replacement(NamedTuple):
    """A broker is ended with a signal, and comes back as another kind."""

    broker: int
    system: System
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


def test_brokers_are_replaced_in_place_and_back(tmp_path: Path) -> None:
    with on_hosts(tmp_path / "hosts", dict.fromkeys((1, 2, 3), APACHE)) as cluster:
        cluster.brokers.create(TOPICS)
        load = RecordedLoad(cluster.brokers.bootstrap, protocols=[CLASSIC])
        try:
            for replacement in REPLACEMENTS:
                _replace(cluster, load, replacement)
            anomalies = load.finish(cluster.folders)
        finally:
            load.stop()
        assert anomalies == []
        await_none("the replicas are equal", lambda: differences(cluster.folders, LOGS))
        logs = [node.log.read_text("utf-8") for node in cluster.cluster.nodes.values()]
        assert [line for log in logs for line in log.splitlines() if " ERROR barnabas" in line] == []


def _replace(cluster: BothKindsOnHosts, load: RecordedLoad, replacement: Replacement) -> None:
    number, system, ending = replacement
    node = cluster.cluster.nodes[number]
    step = f"({node.system} {number} replaced by {system})"
    cluster.lead_all(number)
    load.await_step_led_by(cluster.brokers, number, f"before {step}")
    if ending is signal.SIGKILL:
        node.kill()
    else:
        node.stop()
    load.await_step(f"while a broker is away {step}")
    node.become(system)
    node.start()
    cluster.brokers.await_whole(step)
    cluster.lead_all(number)
    load.await_step_led_by(cluster.brokers, number, f"after {step}")
