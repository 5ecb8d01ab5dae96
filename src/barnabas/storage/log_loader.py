"""Opening the logs of one log directory at start.

Contains the classification of the folders and the order of loading.  Recovery of a single log belongs in
log/recovery.py, failed directories in log_manager.py.  It has no threads: slow calls are yielded for workers.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.ids import Uuid
from barnabas.storage.directories.clean_shutdown import NO_BROKER_EPOCH, clean_shutdown_epoch
from barnabas.storage.directories.log_dir import LogDir
from barnabas.storage.directories.log_dirs import partition_folders
from barnabas.storage.directories.partition_metadata import read_partition_metadata
from barnabas.storage.log import log_files
from barnabas.storage.log.deferred_work import PendingCall
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LONG_MAX, LogOptions
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.progress import LoadingStopped

if TYPE_CHECKING:
    from barnabas.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

# The maximum number of logs that one call opens, and its time limit, so that the loop sees the progress.
OPENED_PER_CALL = 32
OPENING_NS = 50_000_000
_WITHOUT_TOPIC_ID = (log_files.DELETE_FOLDER, log_files.STRAY_FOLDER, log_files.FUTURE_FOLDER)

# Whether a partition found on disk (with its topic id, if it has one) is not assigned to this broker.
IsStray = Callable[[TopicPartition, Uuid | None], bool]


@dataclass(frozen=True, slots=True)
class _Directory:
    """The content of a log directory before its logs are opened."""

    live: LogDir
    # Folder, partition, and the topic id that its partition.metadata has.
    folders: Sequence[tuple[str, TopicPartition, Uuid | None]]
    recovery_points: Mapping[TopicPartition, int]
    log_starts: Mapping[TopicPartition, int]
    high_watermarks: Mapping[TopicPartition, int]
    # See `LogDir.read_gaps`.
    gaps: Mapping[TopicPartition, int] | None


@dataclass(slots=True)
class _Opened:
    """The logs that a call has opened, and the error that ended it."""

    logs: list[tuple[TopicPartition, Log]]
    error: Exception | None = None


def load_dir(manager: LogManager, path: str, is_stray: IsStray) -> Iterator[PendingCall[object]]:
    """Open the logs of one directory.

    Each step is a slow call that waits for the device: it runs, on any thread, before the next; its result is
    applied here.
    """
    reading = PendingCall(partial(_read_dir, manager, path))
    yield reading
    found = reading.finish()
    directory = manager.live[path] = found.live
    if found.folders:
        state = "were closed cleanly" if directory.was_clean else "were not closed cleanly and are recovered"
        logger.info("%s: opening %d logs, which %s", path, len(found.folders), state)
    manager.loading.begin(len(found.folders))
    logs: deque[tuple[str, TopicPartition]] = deque()
    for folder, partition, topic_id in found.folders:
        if not (yield from _is_aside(manager, folder, partition, topic_id, is_stray)):
            logs.append((folder, partition))
            if partition in found.high_watermarks and not folder.endswith(log_files.FUTURE_FOLDER):
                manager.checkpointed_high_watermarks[partition] = found.high_watermarks[partition]
    while logs:
        some = [logs[at] for at in range(min(OPENED_PER_CALL, len(logs)))]
        options = {partition.topic: manager.options_for(partition.topic) for _, partition in some}
        opening = PendingCall(partial(_open_some, manager, found, some, options))
        yield opening
        opened = opening.finish()
        for partition, log in opened.logs:
            logs.popleft()
            manager.add_log(partition, log)
            manager.loading.opened += 1
        if opened.error is not None:
            # A log whose recovery was interrupted must be recovered again.
            directory.was_clean = False
            raise opened.error
        manager.loading.check()
    for plan in _plan_checkpoints(manager, found):
        writing = PendingCall(plan)
        yield writing
        writing.finish()
    directory.is_loaded = True


def _plan_checkpoints(manager: LogManager, found: _Directory) -> Iterator[Callable[[], None]]:
    """Write the values that differ from the checkpoints, once all logs are open."""
    directory = found.live
    logs = manager.logs_in(directory.path)
    if directory.has_other_gaps(logs):
        # First: after a later recovery point, gaps that are not checkpointed would count as lost records.
        yield directory.plan_gaps(logs)
    # A new partition with the name of one that was deleted, or is stray, would start with its values.
    yield partial(directory.forget_others, set(logs))
    if manager.cleaner is not None:
        manager.cleaner.forget_gone(directory.path)
        yield manager.cleaner.plan_checkpoint(directory.path)
    if found.folders and not directory.was_clean:
        # Rebuilt files are not synced, and must not be trusted once a log has a later segment.
        yield directory.plan_recovery_points(logs)


def _read_dir(manager: LogManager, path: str) -> _Directory:
    directory = LogDir(manager.disk, path, manager.directory_ids.get(path))
    epoch = clean_shutdown_epoch(manager.disk, path)
    directory.open()
    try:
        return _read_opened(manager, path, directory)
    except LoadingStopped:
        if directory.was_clean:
            directory.mark_clean(NO_BROKER_EPOCH if epoch is None else epoch)
        raise


def _read_opened(manager: LogManager, path: str, directory: LogDir) -> _Directory:
    disk = manager.disk
    gaps = directory.read_gaps()  # before the cleaner replaces a checkpoint that it cannot read
    if manager.cleaner is not None:
        manager.cleaner.add_dir(path)
    named = partition_folders(disk, path)
    folders = []
    for name, partition in named:
        manager.loading.check()
        topic_id = None
        if not name.endswith(_WITHOUT_TOPIC_ID):
            topic_id = read_partition_metadata(disk, f"{path}/{name}")
        folders.append((f"{path}/{name}", partition, topic_id))
    if not directory.was_clean:
        # Folders created by the last run may not be synced; flushes of their logs rely on it.
        disk.sync_folder(path)
    return _Directory(
        directory,
        folders,
        directory.read_recovery_points(),
        directory.read_log_starts(),
        directory.read_high_watermarks(),
        gaps,
    )


def _open_some(
    manager: LogManager,
    found: _Directory,
    folders: Sequence[tuple[str, TopicPartition]],
    options: Mapping[str, LogOptions],
) -> _Opened:
    """Open as many of them, in order, as the time limit allows, but at least one."""
    opened = _Opened([])
    until_ns = manager.clock.monotonic_ns() + OPENING_NS
    for folder, partition in folders:
        if manager.loading.is_stopped:
            break
        try:
            log = Log.open(
                manager.disk,
                manager.clock,
                folder,
                options[partition.topic],
                random=manager.random,
                clean=found.live.was_clean,
                recovery_point=found.recovery_points.get(partition, 0),
                log_start_offset=found.log_starts.get(partition, 0),
                high_watermark=found.high_watermarks.get(partition),
                gaps_end=LONG_MAX if found.gaps is None else found.gaps.get(partition, 0),
                watch=manager.loading.reading,
            )
        except Exception as error:
            opened.error = error
            return opened
        opened.logs.append((partition, log))
        if manager.clock.monotonic_ns() >= until_ns:
            break
    return opened


def _is_aside(
    manager: LogManager, folder: str, partition: TopicPartition, topic_id: Uuid | None, is_stray: IsStray
) -> Generator[PendingCall[object], None, bool]:
    """Whether a folder has no log to open: to be deleted, stray, or now found to be stray."""
    if folder.endswith(log_files.DELETE_FOLDER):
        manager.folders_to_delete.append((manager.clock.wall_ms(), folder))
        return True
    if folder.endswith(log_files.FUTURE_FOLDER):
        return False
    if not folder.endswith(log_files.STRAY_FOLDER):
        if not is_stray(partition, topic_id):
            if topic_id is not None:
                manager.topic_ids[partition] = topic_id
            return False
        # A replica that was deleted while its directory was offline (KIP-858): kept, but not opened.
        renaming = PendingCall(partial(_make_stray, manager, folder, partition))
        yield renaming
        folder = renaming.finish()
    logger.warning("%s is no partition of this broker; look at it and delete it", folder)
    manager.strays[partition] = folder
    return True


def _make_stray(manager: LogManager, folder: str, partition: TopicPartition) -> str:
    log_dir = folder.rpartition("/")[0]
    name = log_files.folder_on_the_way(*partition, log_files.STRAY_FOLDER, manager.random)
    manager.disk.rename(folder, f"{log_dir}/{name}")
    manager.disk.sync_folder(log_dir)
    return f"{log_dir}/{name}"
