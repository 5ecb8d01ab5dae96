"""The metrics of replication, on the side of leaders and of followers."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.replication.fetcher_manager import FetcherManager
from barnabas.broker.replication.follower_effects import FollowerEffects


def add_replication_metrics(
    metrics: Metrics, replicas: ReplicaManager, fetchers: FetcherManager, effects: FollowerEffects
) -> None:
    """Add the metrics of one broker; all are read when the page is requested."""

    def count(holds: Callable[[Hosted], bool]) -> int:
        return sum(map(holds, replicas.partitions.values()))

    gauge, counter = metrics.gauge, metrics.counter
    gauge("leader_partitions", "partitions that are led here", lambda: count(_is_led))
    gauge(
        "under_replicated_partitions",
        "partitions led here with fewer in-sync replicas than replicas",
        lambda: count(_is_under_replicated),
    )
    gauge(
        "under_min_isr_partitions",
        "partitions led here with fewer in-sync replicas than min.insync.replicas",
        lambda: count(_is_under_min_isr),
    )
    gauge("followed_partitions", "partitions that are fetched from other leaders", lambda: len(fetchers))
    gauge("replica_fetchers", "fetchers, each with a connection", lambda: len(fetchers.fetchers))
    gauge(
        "replica_max_lag",
        "records by which the followed partition furthest behind is behind its leader",
        lambda: fetchers.max_lag,
    )
    counter("replication_bytes_in_total", "bytes fetched from leaders", lambda: effects.bytes_in)
    counter("truncations_total", "truncations of followed partitions", lambda: effects.truncated)
    counter(
        "isr_shrinks_total", "changes that removed in-sync replicas", lambda: replicas.isr_changes.shrinks
    )
    counter("isr_expands_total", "changes that added in-sync replicas", lambda: replicas.isr_changes.expands)


def _is_led(partition: Hosted) -> bool:
    return partition.is_leader


def _is_under_replicated(partition: Hosted) -> bool:
    return partition.is_leader and len(partition.isr) < len(partition.replicas)


def _is_under_min_isr(partition: Hosted) -> bool:
    return partition.is_under_min_isr
