"""What fetched data leads to on this broker: flushes, truncation, waiting consumers, failed directories."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replication.truncations import Truncations
from barnabas.replica.fetching.fetch_state import FollowedPartition
from barnabas.storage.failure import StorageFailure

if TYPE_CHECKING:
    from barnabas.broker.replicas.replica_manager import ReplicaManager


class FollowerEffects:
    """The effects on one broker's replicas."""

    def __init__(self, replicas: ReplicaManager, truncations: Truncations) -> None:
        self._replicas = replicas
        self.truncations = truncations
        # Counters for metrics: only grow.
        self.bytes_in = 0
        self.truncated = 0

    def appended(self, partition: FollowedPartition, size: int) -> None:
        self.bytes_in += size
        self._replicas.storage.flush_if_due(_hosted(partition))

    def throttle_ms(self, partition: FollowedPartition, size: int) -> int:
        """Count what was fetched; returns how long a throttled replica has to wait (KIP-73)."""
        quota = self._replicas.follower_quota
        if not quota.is_set or not quota.is_throttled(partition.topic, partition.index):
            return 0
        quota.record(size)
        return quota.throttle_ms()

    def high_watermark_advanced(self, partition: FollowedPartition) -> None:
        """Consumers may read from followers (KIP-392)."""
        self._replicas.purgatory.changed(_hosted(partition))

    def directory_failed(self, partition: FollowedPartition, failure: StorageFailure) -> None:
        log = _hosted(partition).log
        if log is not None:
            self._replicas.storage.fail(log, failure)

    def note_gaps(
        self, partition: FollowedPartition, done: Callable[[], None], refused: Callable[[], None]
    ) -> None:
        """The leader's log is compacted: after a crash, missing offsets must not count as lost records."""
        log = _hosted(partition).log
        if log is not None:
            self._replicas.storage.note_gaps(log, done, refused)

    def truncate(
        self,
        partition: FollowedPartition,
        offset: int,
        log_start_offset: int | None,
        done: Callable[[], None],
    ) -> None:
        """Truncate the log, or begin it again; `done` is called unless the directory fails."""
        hosted = _hosted(partition)
        if hosted.log is not None:
            self.truncated += 1
            self.truncations.start(hosted.name, hosted.log, offset, log_start_offset, done)


def _hosted(partition: FollowedPartition) -> Hosted:
    assert isinstance(partition, Hosted), "fetchers follow partitions of this broker"
    return partition
