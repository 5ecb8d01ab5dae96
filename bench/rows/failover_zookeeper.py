"""Failover in ZooKeeper mode, as golden/timelines was measured: sessions of 6 s and of 18 s, the default.

Three brokers on an ensemble of three, and else as in the rows of failover.  A broker that was killed is
missed when its session ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from bench.cluster_load import create
from bench.clusters import Node
from bench.registry import Contender, Workbench, row
from bench.rows.failover import LOAD, TOPIC, leader, run
from bench.zookeeper_clusters import APACHE, ZooKeeperCluster, make_zookeeper_clusters

SHORT_MS, LONG_MS = 6_000, 18_000


def start(bench: Workbench, session_ms: int) -> dict[str, ZooKeeperCluster]:
    def make() -> dict[str, ZooKeeperCluster]:
        settings = {"zookeeper.session.timeout.ms": str(session_ms)}
        clusters = make_zookeeper_clusters(bench.context.folder(), bench.context.stack, settings)
        for cluster in clusters.values():
            create(cluster, [TOPIC], LOAD.partitions, {"min.insync.replicas": "2"})
        return clusters

    return bench.context.shared(("failover-zookeeper", session_ms), make)


def contenders(
    bench: Workbench, session_ms: int, victim: Callable[[Any], Node], strike: Callable[[Node], None]
) -> Mapping[str, Contender]:
    clusters = start(bench, session_ms)
    return {name: partial(run, cluster, victim, strike) for name, cluster in clusters.items()}


def first_server(cluster: ZooKeeperCluster) -> Node:
    """The server that leads the ensemble."""
    return cluster.ensemble.leader()


ROW = partial(row, unit="s", higher_is_better=False, against=APACHE, warm_up=False)
KILLED = partial(ROW, goal=1.05, allowance=0.3)
GAP = "longest time without an acknowledged record"


@KILLED("failover-zookeeper-6s-leader", f"ZooKeeper mode, session 6 s, kill -9 of a leader: {GAP}")
def leader_killed(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, SHORT_MS, leader, Node.kill)


@KILLED("failover-zookeeper-6s-controller", f"ZooKeeper mode, session 6 s, kill -9 of the controller: {GAP}")
def controller_killed(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, SHORT_MS, ZooKeeperCluster.active_controller, Node.kill)


@ROW("failover-zookeeper-graceful", f"ZooKeeper mode, graceful stop of a leader: {GAP}", goal=0.6)
def leader_stopped(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, SHORT_MS, leader, Node.stop)


@KILLED(
    "failover-zookeeper-server",
    f"ZooKeeper mode, kill -9 of the server that leads the ensemble: {GAP}",
    own_goal=0.5,
)
def server_killed(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, SHORT_MS, first_server, Node.kill)


@KILLED("failover-zookeeper-18s-leader", f"ZooKeeper mode, session 18 s, kill -9 of a leader: {GAP}")
def leader_killed_late(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, LONG_MS, leader, Node.kill)


@KILLED(
    "failover-zookeeper-18s-controller", f"ZooKeeper mode, session 18 s, kill -9 of the controller: {GAP}"
)
def controller_killed_late(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, LONG_MS, ZooKeeperCluster.active_controller, Node.kill)
