"""The disk of one node of the kit: locks that end with the node, and faults of the device."""

from __future__ import annotations

import errno

from barnabas.runtime.disk.disk import Disk, Lock, refuse
from barnabas.runtime.disk.watched_disk import WatchedDisk
from barnabas.runtime.loop.reactor_thread import pause
from barnabas.runtime.simulated.disk_faults import Kind

_GROWING = frozenset({Kind.WRITE})
_SYNCING = frozenset({Kind.SYNC, Kind.SYNC_FOLDER})


class NodeDisk(WatchedDisk):
    """The cluster's disk as one node sees it.  Faults concern the node's log directory only: its metadata are
    elsewhere, as an operator would have them."""

    def __init__(self, disk: Disk, log_dir: str) -> None:
        super().__init__(disk, self._before)
        self.is_full = False
        self.sync_delay_s = 0.0
        self._below = f"{log_dir}/"
        self._locks: list[Lock] = []

    def lock(self, path: str) -> Lock:
        lock = super().lock(path)
        self._locks.append(lock)
        return lock

    def free_bytes(self, path: str) -> int:
        return 0 if self.is_full and self._concerns(path) else super().free_bytes(path)

    def end(self) -> None:
        """The process is gone, and with it its locks."""
        locks, self._locks = self._locks, []
        for lock in locks:
            lock.release()

    def _concerns(self, path: str) -> bool:
        return f"{path}/".startswith(self._below)

    def _before(self, kind: Kind, path: str) -> None:
        if self.is_full and kind in _GROWING and self._concerns(path):
            refuse(errno.ENOSPC, path)
        if self.sync_delay_s and kind in _SYNCING and self._concerns(path):
            # Syncs run on workers, which may wait.
            pause(self.sync_delay_s)
