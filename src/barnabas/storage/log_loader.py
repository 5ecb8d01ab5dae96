"""Opening the logs of one log directory at start.

What lives here: what each folder found there is, and in which order things are read.  What may not: recovery
of a single log (log.py), and what becomes of a directory that fails (manager.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.base.ids import Uuid
from barnabas.storage.directories.log_dir import LogDir
from barnabas.storage.directories.log_dirs import partition_folders
from barnabas.storage.directories.partition_metadata import read_partition_metadata
from barnabas.storage.log import log_files
from barnabas.storage.log.log_options import LONG_MAX
from barnabas.storage.log.names import TopicPartition

if TYPE_CHECKING:
    from barnabas.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

# Whether a partition found on disk (with its topic id, if it has one) is none that this broker should hold.
IsStray = Callable[[TopicPartition, Uuid | None], bool]


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """One more log was opened: done of total in its directory."""

    log_dir: str
    partition: TopicPartition
    done: int
    total: int
    recovered: bool


def load_dir(manager: LogManager, path: str, is_stray: IsStray) -> Iterator[LoadProgress]:
    """Open the logs of one directory; each step opens one."""
    directory = LogDir(manager.disk, path, manager.directory_ids.get(path))
    directory.open()
    manager.live[path] = directory
    gaps = directory.read_gaps()  # before the cleaner replaces a checkpoint that it cannot read
    if manager.cleaner is not None:
        manager.cleaner.add_dir(path)
    folders = partition_folders(manager.disk, path)
    directory.forget_others({partition for name, partition in folders if not _waits_to_go(name)})
    recovery_points, log_starts = directory.read_recovery_points(), directory.read_log_starts()
    high_watermarks = directory.read_high_watermarks()
    manager.checkpointed_high_watermarks.update(high_watermarks)
    if not directory.was_clean:
        # Folders that the last life made may not have reached the disk; a flush of their logs relies on it.
        manager.disk.sync_folder(path)
    if folders:
        state = "were closed cleanly" if directory.was_clean else "were not closed cleanly and are recovered"
        logger.info("%s: opening %d logs, which %s", path, len(folders), state)
    for done, (name, partition) in enumerate(folders, start=1):
        folder = f"{path}/{name}"
        if not _is_aside(manager, folder, partition, is_stray):
            manager.open_log(
                folder,
                partition,
                clean=directory.was_clean,
                recovery_point=recovery_points.get(partition, 0),
                log_start_offset=log_starts.get(partition, 0),
                high_watermark=high_watermarks.get(partition),
                gaps_end=LONG_MAX if gaps is None else gaps.get(partition, 0),
            )
        yield LoadProgress(path, partition, done, len(folders), not directory.was_clean)
    if folders and not directory.was_clean:
        # What recovery made anew is not synced, and must not be believed once a log has a later segment.
        directory.write_recovery_points(manager.logs_in(path))
    if directory.has_other_gaps(manager.logs_in(path)):
        directory.write_gaps(manager.logs_in(path))
    directory.is_loaded = True


def _waits_to_go(name: str) -> bool:
    return name.endswith((log_files.DELETE_FOLDER, log_files.STRAY_FOLDER))


def _is_aside(manager: LogManager, folder: str, partition: TopicPartition, is_stray: IsStray) -> bool:
    """Whether a folder holds no log to serve: to be deleted, stray, or found to be stray just now."""
    if folder.endswith(log_files.DELETE_FOLDER):
        manager.folders_to_delete.append((manager.clock.wall_ms(), folder))
        return True
    if folder.endswith(log_files.FUTURE_FOLDER):
        return False
    if not folder.endswith(log_files.STRAY_FOLDER):
        topic_id = read_partition_metadata(manager.disk, folder)
        if not is_stray(partition, topic_id):
            if topic_id is not None:
                manager.topic_ids[partition] = topic_id
            return False
        # A replica that was deleted while its directory was offline (KIP-858): kept, out of the way.
        folder = _make_stray(manager, folder, partition)
    logger.warning("%s is no partition of this broker; look at it and delete it", folder)
    manager.strays[partition] = folder
    return True


def _make_stray(manager: LogManager, folder: str, partition: TopicPartition) -> str:
    log_dir = folder.rpartition("/")[0]
    name = log_files.folder_on_the_way(*partition, log_files.STRAY_FOLDER, manager.random)
    manager.disk.rename(folder, f"{log_dir}/{name}")
    manager.disk.sync_folder(log_dir)
    return f"{log_dir}/{name}"
