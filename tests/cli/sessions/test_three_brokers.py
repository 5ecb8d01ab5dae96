"""golden/cli/kraft-4.1.0, replayed whole: a walk through a cluster of three brokers and three controllers,
recorded with Apache Kafka's tools, with barnabas' tools and nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.worlds.live_broker import quick_folder
from tests.cli.sessions.differences import Differences
from tests.cli.sessions.recorded_cluster import RECORDED, ClusterActors, RecordedCluster
from tests.cli.sessions.replay import faults_of
from tests.cli.sessions.sessions import read_session

# In this order: each finds what the ones before it have left.
WALK = (
    "topics",
    "errors",
    "produce-consume",
    "groups",
    "configs",
    "cluster",
    "broker-down",
    "reassign",
    "delete",
    "metadata-shell",
)


@pytest.mark.slow
def test_the_walk_through_a_cluster() -> None:
    faults: list[str] = []
    differences = Differences()
    with quick_folder() as folder, RecordedCluster(Path(folder)) as cluster, ClusterActors(cluster) as actors:
        for name in WALK:
            faults += faults_of(read_session(RECORDED / f"{name}.txt"), cluster.places, differences, actors)
    assert not faults, "\n\n".join(faults)
