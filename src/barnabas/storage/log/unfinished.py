"""Completes or undoes what a crash interrupted in a log's folder: deletions and swaps of cleaned segments.

A replacement has the suffix `.cleaned` (being written), then `.swap` (complete, the swap can be finished),
then none.  Files with the suffix `.deleted` are no longer used.
"""

from __future__ import annotations

import logging

from barnabas.batch.view import CorruptBatch
from barnabas.runtime.disk.disk import Disk
from barnabas.storage.log import log_files
from barnabas.storage.segment.batch_headers import headers

logger = logging.getLogger(__name__)


def finish_interrupted(disk: Disk, folder: str) -> None:
    """Leave only complete segments in the folder."""
    finish_swap(disk, folder, remove_unfinished(disk, folder))


def remove_unfinished(disk: Disk, folder: str) -> list[str]:
    """Remove incomplete files; returns the names of complete replacements, still named `.swap`."""
    cleaned, swaps = [], []
    for name in disk.names(folder):
        if name.endswith(log_files.DELETED) and not name.endswith(log_files.RAFT_SNAPSHOT_DELETED):
            disk.remove(f"{folder}/{name}")
        elif name.endswith(log_files.CLEANED):
            cleaned.append(name)
        elif name.endswith(log_files.SWAP):
            swaps.append(name)
    # Files are renamed `.swap` from last to first: those at or after a `.cleaned` belong to an incomplete
    # set.
    first_cleaned = min((_offset_of(name) for name in cleaned), default=None)
    finished = []
    for name in swaps:
        if first_cleaned is not None and _offset_of(name) >= first_cleaned:
            disk.remove(f"{folder}/{name}")
        else:
            finished.append(name)
    for name in cleaned:
        disk.remove(f"{folder}/{name}")
    return finished


def finish_swap(disk: Disk, folder: str, swaps: list[str]) -> None:
    """Complete an interrupted swap: remove the replaced segments and rename the swap files."""
    if not swaps:
        return
    first, end = None, -1
    for name in swaps:
        if name.endswith(log_files.LOG + log_files.SWAP):
            offset = _offset_of(name)
            first = offset if first is None else min(first, offset)
            end = max(end, _next_offset(disk, f"{folder}/{name}", offset))
    if first is not None:
        for name in disk.names(folder):
            replaced = log_files.offset_in(name)
            if not name.endswith(log_files.SWAP) and replaced is not None and first <= replaced < end:
                disk.remove(f"{folder}/{name}")
    for name in swaps:
        logger.info("%s/%s: completing an interrupted swap", folder, name)
        disk.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(log_files.SWAP)}")
    disk.sync_folder(folder)


def _next_offset(disk: Disk, path: str, base_offset: int) -> int:
    """The offset after the last one of a log file, from its batch headers alone."""
    file = disk.open(path, writable=False)
    next_offset = base_offset
    try:
        for header in headers(file, 0, file.size):
            next_offset = header.last_offset + 1
    except CorruptBatch as error:
        logger.warning("%s: %s", path, error)
    finally:
        file.close()
    return next_offset


def _offset_of(name: str) -> int:
    offset = log_files.offset_in(name)
    return -1 if offset is None else offset
