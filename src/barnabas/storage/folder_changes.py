"""Renamed log folders: what must be synced before anything relies on the new names.

Contains the affected log directories and the calls that wait for the device.  Renaming belongs in
log_manager.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from barnabas.runtime.disk.disk import Disk
from barnabas.storage.cleaner.cleaner import LogCleaner
from barnabas.storage.directories.log_dir import LogDir
from barnabas.storage.log.deferred_work import in_order
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition


class FolderChanges:
    """Used on the loop's thread; the calls that it plans run on a worker."""

    def __init__(
        self,
        disk: Disk,
        live: Mapping[str, LogDir],
        logs_in: Callable[[str], Mapping[TopicPartition, Log]],
        cleaner: LogCleaner | None,
    ) -> None:
        self._disk = disk
        self._live = live
        self._logs_in = logs_in
        self._cleaner = cleaner
        # The deleted partitions by directory; empty where a folder was only added or moved.
        self._touched: dict[str, set[TopicPartition]] = {}

    def deleted(self, log_dir: str, partition: TopicPartition) -> None:
        """Called when a partition's folder was renamed `-delete` or `-stray`."""
        self._touched.setdefault(log_dir, set()).add(partition)

    def touched(self, log_dir: str) -> None:
        """Called when a log was added to or removed from a directory but the partition still exists."""
        self._touched.setdefault(log_dir, set())

    def again(self, log_dir: str, partitions: Iterable[TopicPartition]) -> None:
        """There was no space for what was planned: plan it again."""
        self._touched.setdefault(log_dir, set()).update(partitions)

    def is_deleted(self, partition: TopicPartition) -> bool:
        """Whether `plan` would include it."""
        return any(partition in names for names in self._touched.values())

    def plan(self) -> list[tuple[str, set[TopicPartition], Callable[[], None]]]:
        """The directories, which partitions were deleted there, and a call for a worker.

        The call syncs the new names and removes the old ones from the checkpoints: otherwise a partition that
        is created again under the same name would, after a crash, start at the old one's offsets.  So none
        may be created before the call has returned.  It waits for the device: many deletions should share it.
        """
        touched, self._touched = self._touched, {}
        return [
            (log_dir, names, self._plan(self._live[log_dir]))
            for log_dir, names in sorted(touched.items())
            if log_dir in self._live
        ]

    def _plan(self, directory: LogDir) -> Callable[[], None]:
        logs = self._logs_in(directory.path)
        calls: list[Callable[[], None]] = [partial(self._disk.sync_folder, directory.path)]
        if directory.has_other_gaps(logs):  # most have none, and a checkpoint waits for the device
            calls.append(directory.plan_gaps(logs))
        calls += [
            directory.plan_recovery_points(logs),
            directory.plan_log_starts(logs),
            # Apache Kafka leaves these to the next timer: a new leader may expose what only it has.
            directory.plan_high_watermarks(logs),
        ]
        if self._cleaner is not None:
            calls.append(self._cleaner.plan_checkpoint(directory.path))
        return in_order(calls)
