"""Closing the logs of one log directory: flushes, checkpoints, and last the clean shutdown file."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from barnabas.runtime.disk.disk import SYNCED_ONE_BY_ONE_MAX, Disk
from barnabas.storage.directories.log_dir import LogDir
from barnabas.storage.failure import DirectoryFull
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition

logger = logging.getLogger(__name__)


def close_dir(disk: Disk, directory: LogDir, logs: Mapping[TopicPartition, Log], broker_epoch: int) -> None:
    """A full directory is not marked as closed cleanly; that costs time at the next start, and no record."""
    try:
        if not directory.is_loaded:
            # Checkpoint entries of logs that were not opened yet must stay, and nothing was written that
            # needs a flush: the next start begins as this one did.
            for log in logs.values():
                log.abandon()
            directory.mark_clean(broker_epoch)
            return
        # First, because the leader epochs of deleted records stay on file until then.
        directory.write_log_starts(logs)
        _close_logs(disk, directory, list(logs.values()))
        directory.write_recovery_points(logs)
        directory.write_high_watermarks(logs)
        directory.mark_clean(broker_epoch)
    except DirectoryFull as full:
        logger.error(
            "%s has no space to be marked as closed cleanly: its logs are recovered at the next start (%s)",
            directory.path,
            full.message,
        )


def _close_logs(disk: Disk, directory: LogDir, logs: Sequence[Log]) -> None:
    """Sync and close them all, also if there is no space for what closing writes beside records."""
    refused: DirectoryFull | None = None
    together = len(logs) > SYNCED_ONE_BY_ONE_MAX
    for log in logs:
        try:
            if not together:
                log.flush()
            log.close(sync=not together)
        except DirectoryFull as full:
            log.abandon()
            refused = full
    if together or refused is not None:
        disk.sync_below(directory.path)
    if refused is not None:
        raise refused
    if together:
        for log in logs:
            log.all_synced()
