"""Folders of logs that were renamed: what has to reach the disk before anything may rest on the new names.

What lives here: which log directories that concerns, and the calls that wait for the device.  What may not:
which folder gets which name, and when (manager.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from barnabas.runtime.disk.disk import Disk
from barnabas.storage.cleaner.cleaner import LogCleaner
from barnabas.storage.directories.log_dir import LogDir
from barnabas.storage.log.deferred_work import in_order
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition


class FolderChanges:
    """Of one broker.  For the loop's thread; the calls that it plans are for a worker's."""

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
        # The partitions that were deleted, by directory; none where only a folder came or went.
        self._touched: dict[str, set[TopicPartition]] = {}

    def deleted(self, log_dir: str, partition: TopicPartition) -> None:
        """The folder of a partition was renamed to be deleted, or to be kept aside."""
        self._touched.setdefault(log_dir, set()).add(partition)

    def touched(self, log_dir: str) -> None:
        """A log has come to a directory or left it; the partition lives on."""
        self._touched.setdefault(log_dir, set())

    def is_deleted(self, partition: TopicPartition) -> bool:
        """Whether `plan` would have it."""
        return any(partition in names for names in self._touched.values())

    def plan(self) -> list[tuple[str, set[TopicPartition], Callable[[], None]]]:
        """The directories, which partitions were deleted there, and a call for a worker.

        It makes the new names last, and the checkpoints forget the old ones: else a partition that is made
        again under the same name would, after a crash, begin where the old one was.  So none may be made
        before the call has returned.  It waits for the device: many deletions had better share it.
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
        calls += [directory.plan_recovery_points(logs), directory.plan_log_starts(logs)]
        if self._cleaner is not None:
            calls.append(self._cleaner.plan_checkpoint(directory.path))
        return in_order(calls)
