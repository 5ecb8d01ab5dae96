"""The folders of a node at its start: locked, and known to belong to this node and this cluster.

What lives here: what is checked before anything else starts.  What may not: the logs inside.
"""

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
    """What a node's folders say."""

    dirs: LogDirs
    cluster_id: str
    directory_ids: dict[str, Uuid]

    @property
    def live_ids(self) -> list[Uuid]:
        """The ids of the log directories that serve."""
        return [self.directory_ids[path] for path in self.dirs.live if path in self.directory_ids]


def open_folders(disk: Disk, node: Node, random: Random, clock: Clock) -> LogDirectories:
    """Lock and check every folder.  StorageRefused, with one line that says what to do, if it cannot be."""
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
    """The broker epoch under which this broker last stopped, if it closed every folder cleanly (KIP-966)."""
    if dirs.offline:
        return None
    epochs = {clean_shutdown_epoch(disk, path) for path in dirs.paths}
    return epochs.pop() if len(epochs) == 1 else None
