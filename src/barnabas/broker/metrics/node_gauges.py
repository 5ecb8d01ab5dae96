"""The gauges of a node as a whole, in every role and mode."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.log_directories import LogDirectories
from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.metadata.image import Image


def add_node_gauges(
    metrics: Metrics,
    *,
    image: Callable[[], Image],
    connections: Callable[[], int],
    apply_errors: Callable[[], int],
    replicas: Callable[[], ReplicaManager | None],
    folders: Callable[[], LogDirectories | None],
) -> None:
    """Replicas and folders are there once they are opened."""

    def of_replicas(count: Callable[[ReplicaManager], int]) -> Callable[[], int]:
        def counted() -> int:
            manager = replicas()
            return 0 if manager is None else count(manager)

        return counted

    def offline_dirs() -> int:
        opened = folders()
        return 0 if opened is None else len(opened.dirs.offline)

    gauge = metrics.gauge
    gauge("connections", "connections that are open", connections)
    gauge("topics", "topics of the cluster", lambda: len(image().topics))
    gauge("metadata_offset", "offset of the last committed metadata record", lambda: image().offset)
    gauge(
        "metadata_apply_errors",
        "times that a part of the broker failed to act on committed metadata",
        apply_errors,
    )
    gauge(
        "partitions", "partitions with a replica here", of_replicas(lambda manager: len(manager.partitions))
    )
    gauge(
        "failed_partitions",
        "partitions that a fault keeps out of service; the log names them",
        of_replicas(lambda manager: manager.failed_count),
    )
    gauge("offline_log_dirs", "log directories that do not serve", offline_dirs)
    gauge(
        "full_log_dirs",
        "log directories that refuse writes for lack of space",
        of_replicas(lambda manager: len(manager.storage.manager.full)),
    )
