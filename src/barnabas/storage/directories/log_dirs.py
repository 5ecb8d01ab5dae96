"""The log directories of a broker: which are live or offline, and their locks.

Contains checking and locking the folders of `log.dirs` at start, choosing one for a new partition, and taking
one offline.  The logs belong in storage/log_manager.py, the rules of meta.properties in meta_properties.py.

A directory that cannot be used is offline and does not affect the others (KIP-112); if none is left, the
start fails.  A directory locked by another process always fails the start: two brokers must never share a
folder.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.runtime.disk.disk import Disk, Lock
from barnabas.storage.failure import explain
from barnabas.storage.log import log_files
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.refused import FolderRefused, StorageRefused

LOCK_FILE = ".lock"
METADATA_TOPIC = "__cluster_metadata"
# The index cache of tiered storage lies next to the partitions but is not one (KIP-405).
REMOTE_INDEX_CACHE = "remote-log-index-cache"

OfflineListener = Callable[[str, str], None]


class LogDirs:
    """The folders of `log.dirs`, in the order of the configuration."""

    __slots__ = ("_disk", "_listeners", "_locks", "offline", "paths")

    def __init__(self, disk: Disk, paths: Sequence[str]) -> None:
        if not paths:
            raise StorageRefused("log.dirs names no folder; give at least one")
        self._disk = disk
        self._locks: dict[str, Lock] = {}
        self._listeners: list[OfflineListener] = []
        self.paths = tuple(posixpath.normpath(path) for path in paths)
        # Path -> why it is offline.
        self.offline: dict[str, str] = {}
        twice = next((path for path in self.paths if self.paths.count(path) > 1), None)
        if twice is not None:
            raise FolderRefused(twice, "is named twice in log.dirs; name each folder once")

    @property
    def live(self) -> list[str]:
        return [path for path in self.paths if path not in self.offline]

    def is_live(self, path: str) -> bool:
        if path not in self.paths:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"the folder {path} is not among log.dirs")
        return path not in self.offline

    def on_offline(self, listener: OfflineListener) -> None:
        """Add a listener for (path, reason) of directories that fail after `open`."""
        self._listeners.append(listener)

    def open(self) -> None:
        """Create, check and lock every folder.  Raises if one is in use or none can be used."""
        for path in self.paths:
            try:
                self._open_one(path)
            except FolderRefused as refusal:
                self.offline[path] = str(refusal)
            except OSError as error:
                self.offline[path] = f"{path}: {explain(error)}"
            except StorageRefused:
                self.close()
                raise
        self._refuse_if_none_is_left()

    def _open_one(self, path: str) -> None:
        disk = self._disk
        if not disk.exists(path):
            self._make(path)
        elif not disk.is_folder(path):
            raise FolderRefused(path, "is not a folder; correct log.dirs or move the file away")
        disk.names(path)
        try:
            self._locks[path] = disk.lock(f"{path}/{LOCK_FILE}")
        except BlockingIOError as error:
            raise StorageRefused(
                f"{path}: another broker, in this process or another one, is using this folder"
                f" ({LOCK_FILE} is held); stop it or correct log.dirs"
            ) from error

    def _make(self, path: str) -> None:
        """Create a folder and its parents, all durably."""
        parent = posixpath.dirname(path) or "."
        if not self._disk.exists(parent):
            self._make(parent)
        self._disk.make_folder(path)
        self._disk.sync_folder(parent)

    def mark_offline(self, path: str, reason: str) -> None:
        """Take a folder offline before its logs are opened, e.g. because of its meta.properties."""
        self._take_offline(path, reason)
        self._refuse_if_none_is_left()

    def fail(self, path: str, error: Exception) -> None:
        """Take a folder offline at run time.  Listeners are notified once; the caller checks `live`."""
        if path in self.offline:
            return
        reason = f"{path}: {explain(error)}" if isinstance(error, OSError) else str(error)
        self._take_offline(path, reason)
        for listener in self._listeners:
            listener(path, reason)

    def _take_offline(self, path: str, reason: str) -> None:
        self.offline[path] = reason
        self._release(path)

    def _release(self, path: str) -> None:
        lock = self._locks.pop(path, None)
        if lock is not None:
            lock.release()

    def _refuse_if_none_is_left(self) -> None:
        if not self.live:
            reasons = "; ".join(self.offline[path] for path in self.paths)
            raise StorageRefused(f"none of log.dirs can be used: {reasons}")

    def by_fewest_partitions(self, counts: Mapping[str, int]) -> list[str]:
        """Live folders in the order in which a new partition tries them (M-E1)."""
        return sorted(self.live, key=lambda path: counts.get(path, 0))

    def close(self) -> None:
        for path in list(self._locks):
            self._release(path)


def partition_folders(disk: Disk, log_dir: str) -> list[tuple[str, TopicPartition]]:
    """Folder name and partition of every log in a directory.  Raises for any other folder.

    The metadata log is excluded: Raft opens it.
    """
    found: list[tuple[str, TopicPartition]] = []
    for name in disk.names(log_dir):
        if name == REMOTE_INDEX_CACHE or not disk.is_folder(f"{log_dir}/{name}"):
            continue
        try:
            partition = TopicPartition(*log_files.parse_folder(name))
        except ValueError as error:
            raise StorageRefused(f"{log_dir}: {error}") from error
        if partition.topic != METADATA_TOPIC:
            found.append((name, partition))
    return found


def in_two_dirs(partition: TopicPartition, one: str, other: str) -> StorageRefused:
    """The error for a partition in two directories: only an administrator knows which is right."""
    return StorageRefused(
        f"the partition {partition} is in both {one} and {other}, probably because a directory failed while"
        " the partition was moved between them; delete one of the two, best the one in the directory that"
        " failed, and start again"
    )
