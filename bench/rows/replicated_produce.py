"""Produce to three brokers on one machine, three replicas, min.insync.replicas=2, acks=all, by librdkafka.

The producer takes its share of the same processors, alike for both.  Processor time and memory are those of
all three brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench.apache import APACHE
from bench.cluster_load import ReplicatedLoad, pace, produce, topic
from bench.clusters import Cluster, make_clusters
from bench.paced import percentile, settle
from bench.registry import Contender, RunContext, Workbench, row

SECONDS = 6.0
WARM_UP_S = 10.0
PACED_S = 5.0
PACED_PER_SECOND = 1000

PLAIN = ReplicatedLoad()


def warm_clusters(context: RunContext) -> dict[str, Cluster]:
    def make() -> dict[str, Cluster]:
        clusters = make_clusters(context.folder(), context.stack)
        for cluster in clusters.values():
            with topic(cluster, PLAIN.partitions) as name:
                produce(cluster, name, PLAIN, WARM_UP_S)
        return clusters

    return context.shared("clusters", make)


def run(cluster: Cluster, load: ReplicatedLoad) -> dict[str, float]:
    settle()
    with topic(cluster, load.partitions) as name:
        sent = produce(cluster, name, load, SECONDS)
    return {"mb": sent.mb_per_second, "cpu": sent.cpu_seconds_per_gb, "rss": cluster.rss_bytes / 1e6}


def run_paced(cluster: Cluster) -> float:
    settle()
    with topic(cluster, PLAIN.partitions) as name:
        return percentile(pace(cluster, name, PLAIN, PACED_PER_SECOND, PACED_S), 0.99)


def contenders(bench: Workbench, load: ReplicatedLoad) -> Mapping[str, Contender]:
    clusters = warm_clusters(bench.context)
    return {name: partial(run, cluster, load) for name, cluster in clusters.items()}


RATE = partial(row, unit="MB/s", goal=1.5, floor=0.8, against=APACHE, value="mb")
LESS = partial(row, higher_is_better=False, against=APACHE)


@RATE("replicated-produce", "Produce records of 1 KiB to three replicas, acks=all, by librdkafka")
@LESS(
    "replicated-produce-cpu",
    "Processor time of the three brokers for it",
    unit="s/GB",
    goal=0.5,
    floor=1,
    value="cpu",
)
@LESS(
    "replicated-produce-rss",
    "Memory of the three brokers after it",
    unit="MB",
    goal=0.1,
    floor=0.2,
    value="rss",
)
def plain(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, PLAIN)


@LESS(
    "replicated-produce-p99",
    f"Produce to three replicas, acks=all, {PACED_PER_SECOND:,} records/s of 1 KiB: 99 %",
    unit="ms",
    goal=0.75,
    floor=1,
)
def paced(bench: Workbench) -> Mapping[str, Contender]:
    clusters = warm_clusters(bench.context)
    return {name: partial(run_paced, cluster) for name, cluster in clusters.items()}


VARIANTS = {
    "idempotent": ReplicatedLoad(idempotent=True),
    "transactional": ReplicatedLoad(transactional=True),
    "lz4": ReplicatedLoad(codec="lz4"),
}
for label, variant in VARIANTS.items():
    made = partial(contenders, load=variant)
    RATE(f"replicated-produce-{label}", f"Produce records of 1 KiB to three replicas, acks=all, {label}")(
        made
    )
    LESS(
        f"replicated-produce-{label}-cpu",
        f"Processor time of the three brokers for it, {label}",
        unit="s/GB",
        goal=0.5,
        floor=1,
        value="cpu",
    )(made)
