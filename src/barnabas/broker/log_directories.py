"""Locks and checks the log directories of a node at startup: they must belong to this node and cluster."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.base.ids import Uuid
from barnabas.config.node.node import Node
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.random import Random
from barnabas.storage.directories.clean_shutdown import clean_shutdown_epoch
from barnabas.storage.directories.log_dirs import LogDirs
from barnabas.storage.directories.meta_properties import MetaPropertiesEnsemble
from barnabas.storage.refused import StorageRefused


@dataclass(frozen=True, slots=True)
class LogDirectories:
    """The checked log directories of a node."""

    dirs: LogDirs
    cluster_id: str
    directory_ids: dict[str, Uuid]

    @property
    def live_ids(self) -> list[Uuid]:
        """The ids of the online log directories."""
        return [self.directory_ids[path] for path in self.dirs.live if path in self.directory_ids]


def open_folders(disk: Disk, node: Node, random: Random, clock: Clock) -> LogDirectories:
    """Locks and checks every directory.  Raises StorageRefused, with advice, if one is not usable."""
    dirs = LogDirs(disk, node.log_dirs)
    dirs.open()
    try:
        return _check(disk, node, dirs, random, clock)
    except BaseException:
        dirs.close()
        raise


def _check(disk: Disk, node: Node, dirs: LogDirs, random: Random, clock: Clock) -> LogDirectories:
    found = MetaPropertiesEnsemble.load(disk, dirs.live, node.metadata_log_dir)
    found.verify(node_id=node.node_id)
    found.require_formatted()
    for path, reason in found.failed.items():
        if path in dirs.paths:
            dirs.mark_offline(path, reason)
    completed = found.with_directory_ids(random)
    for path, reason in completed.write_changes(disk, found, clock.wall_ms()).items():
        dirs.mark_offline(path, reason)
    if completed.cluster_id is None:
        raise StorageRefused("no meta.properties names the cluster; format the folders")
    return LogDirectories(dirs, completed.cluster_id, completed.directory_ids)


def epoch_of_last_life(disk: Disk, dirs: LogDirs) -> int | None:
    """Returns the broker epoch of the last clean shutdown of all directories (KIP-966)."""
    if dirs.offline:
        return None
    epochs = {clean_shutdown_epoch(disk, path) for path in dirs.paths}
    return epochs.pop() if len(epochs) == 1 else None
