"""One live log directory: its checkpoint files, and whether its last shutdown was clean."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Set

from barnabas.base.ids import Uuid
from barnabas.runtime.disk.disk import Disk
from barnabas.storage.directories.checkpoints import (
    CLEANER_CHECKPOINT,
    GAP_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    OffsetCheckpoint,
    TrackedCheckpoint,
)
from barnabas.storage.directories.clean_shutdown import (
    has_clean_shutdown,
    remove_clean_shutdown,
    write_clean_shutdown,
)
from barnabas.storage.failure import refusing
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.refused import DamagedFile

logger = logging.getLogger(__name__)


class LogDir:
    """A live directory of `log.dirs`."""

    __slots__ = (
        "_disk",
        "_noted_gaps",
        "_noted_log_starts",
        "_planned_log_starts",
        "directory_id",
        "gaps",
        "high_watermarks",
        "is_loaded",
        "log_starts",
        "path",
        "recovery_points",
        "was_clean",
    )

    def __init__(self, disk: Disk, path: str, directory_id: Uuid | None) -> None:
        self._disk = disk
        self.path = path
        self.directory_id = directory_id
        self.recovery_points = TrackedCheckpoint(disk, path, RECOVERY_POINT_CHECKPOINT)
        self.log_starts = OffsetCheckpoint(disk, path, LOG_START_CHECKPOINT)
        self.high_watermarks = OffsetCheckpoint(disk, path, REPLICATION_CHECKPOINT)
        self.gaps = OffsetCheckpoint(disk, path, GAP_CHECKPOINT)
        # What that one says, None if that is not known.
        self._noted_gaps: dict[TopicPartition, int] | None = None
        # What log-start-offset-checkpoint says, as far as this process wrote it.
        self._noted_log_starts: dict[TopicPartition, int] = {}
        self._planned_log_starts: dict[TopicPartition, int] = {}
        self.was_clean = False
        self.is_loaded = False

    def open(self) -> None:
        """Create missing checkpoints, and remove the clean shutdown file before anything is changed."""
        for checkpoint in (self.recovery_points, self.log_starts, self.high_watermarks):
            checkpoint.create()
        self.was_clean = has_clean_shutdown(self._disk, self.path)
        remove_clean_shutdown(self._disk, self.path)

    def forget_others(self, present: Set[TopicPartition]) -> None:
        """Remove checkpoint entries of partitions that have no log in this directory.

        They are of logs that were found to be stray, or whose deletion a crash interrupted.
        """
        for checkpoint in (self.recovery_points, self.log_starts, self.high_watermarks, self.gaps):
            known = self._read(checkpoint, "it is read as if it were empty")
            kept = {partition: offset for partition, offset in known.items() if partition in present}
            if kept != known:
                checkpoint.write(kept)

    def read_recovery_points(self) -> dict[TopicPartition, int]:
        return self._read(self.recovery_points, "all of its logs are recovered from their start")

    def read_log_starts(self) -> dict[TopicPartition, int]:
        return self._read(self.log_starts, "its logs start with their first segment")

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        return self._read(self.high_watermarks, "its logs' high watermarks start at their log start")

    def read_gaps(self) -> dict[TopicPartition, int] | None:
        """The offset up to which compaction may have left gaps in each log (default 0); None if unknown.

        A directory of Apache Kafka, or of an earlier release, has no such checkpoint.  If one of these ran on
        a directory that has it, its cleaner has left its own checkpoint.
        """
        try:
            self._noted_gaps = gaps = self.gaps.read() if self.gaps.is_written else None
            cleaned = OffsetCheckpoint(self._disk, self.path, CLEANER_CHECKPOINT).read()
        except DamagedFile as damage:
            logger.warning("%s; no gap in a log is taken for a loss", damage)
            return None
        if gaps is None:
            return None
        return {
            partition: max(gaps.get(partition, 0), cleaned.get(partition, 0))
            for partition in gaps.keys() | cleaned.keys()
        }

    def _read(self, checkpoint: OffsetCheckpoint, consequence: str) -> dict[TopicPartition, int]:
        """A damaged checkpoint costs time, not data: each value has a safe default."""
        try:
            return checkpoint.read()
        except DamagedFile as damage:
            logger.warning("%s; %s", damage, consequence)
            return {}

    def write_recovery_points(self, logs: Mapping[TopicPartition, Log]) -> None:
        self.plan_recovery_points(logs)()

    def write_log_starts(self, logs: Mapping[TopicPartition, Log]) -> None:
        self.plan_log_starts(logs)()
        self._release_epochs(logs)

    def write_high_watermarks(self, logs: Mapping[TopicPartition, Log]) -> None:
        self.plan_high_watermarks(logs)()

    def write_gaps(self, logs: Mapping[TopicPartition, Log]) -> None:
        self.plan_gaps(logs)()

    # The same for a worker: the values are read now and written when the call runs.

    def plan_recovery_points(self, logs: Mapping[TopicPartition, Log]) -> Callable[[], None]:
        return self.recovery_points.plan({partition: log.restart_point for partition, log in logs.items()})

    def plan_log_starts(self, logs: Mapping[TopicPartition, Log]) -> Callable[[], None]:
        """Only for logs that start within a segment, or whose first file name is not yet synced.

        Apache Kafka leaves the latter out: after a power loss, removed segments can come back without the
        leader epochs that the checkpoint had released.
        """
        self._release_epochs(logs)
        log_starts = {
            partition: log.log_start_offset for partition, log in logs.items() if _is_start_checkpointed(log)
        }
        write = self.log_starts.plan(log_starts)
        # Known again when it is written: a name in it may belong to another partition by then.
        self._noted_log_starts = {}
        self._planned_log_starts = log_starts

        def note() -> None:
            write()
            if self._planned_log_starts is log_starts:
                self._noted_log_starts = log_starts

        return note

    def _release_epochs(self, logs: Mapping[TopicPartition, Log]) -> None:
        """The leader epochs before a checkpointed log start may leave their file."""
        for partition, log_start_offset in self._noted_log_starts.items():
            log = logs.get(partition)
            if log is not None:
                log.epochs.start_is_durable(log_start_offset)

    def plan_high_watermarks(self, logs: Mapping[TopicPartition, Log]) -> Callable[[], None]:
        return self.high_watermarks.plan({partition: log.high_watermark for partition, log in logs.items()})

    def plan_gaps(self, logs: Mapping[TopicPartition, Log]) -> Callable[[], None]:
        """Only for logs that may have gaps."""
        self._noted_gaps = gaps = _gaps_of(logs)
        write = self.gaps.plan(gaps)

        def note() -> None:
            try:
                write()
            except BaseException:
                self._noted_gaps = None
                raise

        return note

    def has_other_gaps(self, logs: Mapping[TopicPartition, Log]) -> bool:
        """Whether the checkpoint differs from these logs."""
        return self._noted_gaps != _gaps_of(logs)

    def mark_clean(self, broker_epoch: int) -> None:
        """Must be the last write: anything written after it would be trusted without recovery."""
        if self.was_clean or self.is_loaded:
            with refusing(self.path, "writing the clean shutdown file"):
                write_clean_shutdown(self._disk, self.path, broker_epoch)


def _is_start_checkpointed(log: Log) -> bool:
    start = log.log_start_offset
    return start > log.segments[0].base_offset or (start > 0 and not log.local.is_start_durable)


def _gaps_of(logs: Mapping[TopicPartition, Log]) -> dict[TopicPartition, int]:
    return {partition: log.gaps_end for partition, log in logs.items() if log.gaps_end > 0}
