"""Watches the free space of log directories: refuses writes before there is none, and accepts them again.

Contains when a directory counts as full and when it has room.  A reserve is kept from the logs of partitions:
the metadata log, checkpoints and deletions need some space, and a node that cannot write its metadata log has
to stop.  A write that finds no space at all makes a directory full, too; see `full_directories.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from barnabas.runtime.disk.disk import Disk
from barnabas.storage.log.log import Log
from barnabas.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

# The reserve: 5 % of the file system, and not more than this.
RESERVE_SHARE = 20
MAX_RESERVE_BYTES = 32 << 20
# A full directory has room when this many times the reserve is free: it shall not be full again at once.
ROOM = 2
# How much is written to see whether there is room: a quota and a lack of inodes are seen by trying only.
MAX_TRIED_BYTES = 1 << 20
TRIED_FILE = ".space-probe"
# How often to look; sooner if the reserve could be reached before that at this speed.
INTERVAL_MS = 1_000
SHORTEST_MS = 10
FASTEST_BYTES_PER_MS = 500_000
# How long a flush of what an append left behind may take before the next look.
FLUSH_MS = 100

Offload = Callable[[Callable[[], None], Callable[[BaseException | None], None]], None]


class Space(NamedTuple):
    """What was found in a directory."""

    free_bytes: int
    total_bytes: int
    # Whether a write succeeded; only tried in a full directory.
    takes_writes: bool = True

    @property
    def reserve_bytes(self) -> int:
        return min(self.total_bytes // RESERVE_SHARE, MAX_RESERVE_BYTES)

    @property
    def is_low(self) -> bool:
        return self.free_bytes < self.reserve_bytes

    @property
    def has_room(self) -> bool:
        return self.takes_writes and self.free_bytes >= ROOM * self.reserve_bytes

    @property
    def next_look_ms(self) -> int:
        until_low = (self.free_bytes - self.reserve_bytes) // FASTEST_BYTES_PER_MS
        return min(max(until_low, SHORTEST_MS), INTERVAL_MS)


class SpaceWatch:
    """Watches the directories of one log manager.

    `offload` runs a call that waits for the device, `at` calls again after some milliseconds, `flush` syncs a
    log up to an offset.
    """

    def __init__(
        self,
        manager: LogManager,
        offload: Offload,
        after: Callable[[int, Callable[[], None]], None],
        flush: Callable[[Log, int], None],
    ) -> None:
        self._manager = manager
        self._offload = offload
        self._after = after
        self._flush = flush

    def look(self) -> None:
        """Have a worker look; the next look follows by itself."""
        manager = self._manager
        # The paths, and whether a write is to be tried.
        paths = {path: path in manager.full for path in manager.live}
        found: dict[str, Space] = {}

        def ended(error: BaseException | None) -> None:
            if error is not None:
                logger.warning("free space is not known: %s", error)
            self._after(self._judge(found), self.look)

        self._offload(lambda: _measure(manager.disk, paths, found), ended)

    def _judge(self, found: Mapping[str, Space]) -> int:
        """Returns the milliseconds until the next look."""
        manager = self._manager
        wait_ms = INTERVAL_MS
        for path, space in found.items():
            if path not in manager.live:
                continue
            if path in manager.full:
                if space.has_room and not self._has_room(path):
                    wait_ms = min(wait_ms, FLUSH_MS)
            elif space.is_low:
                manager.full.add(
                    path,
                    f"{path}: {space.free_bytes} bytes are free on the device,"
                    f" and {space.reserve_bytes} are kept for metadata",
                )
            else:
                wait_ms = min(wait_ms, space.next_look_ms)
        return wait_ms

    def _has_room(self, path: str) -> bool:
        """Accept writes, unless an append was cut off a log and is not yet flushed away."""
        full = self._manager.full
        for log in full.unsynced_tails(path):
            with self._manager.guarding(path):
                self._flush(log, log.end_offset)
        if path in full and full.unsynced_tails(path):
            return False
        full.has_room(path)
        return True


def _measure(disk: Disk, paths: Mapping[str, bool], found: dict[str, Space]) -> None:
    """Called on a worker.  A directory that cannot be measured is left out: its next write tells more."""
    for path, is_full in paths.items():
        try:
            space = Space(disk.free_bytes(path), disk.total_bytes(path))
            if is_full and space.has_room:
                space = space._replace(takes_writes=_takes_writes(disk, path, space.reserve_bytes))
        except OSError:
            continue
        found[path] = space


def _takes_writes(disk: Disk, path: str, size: int) -> bool:
    tried = f"{path}/{TRIED_FILE}"
    try:
        disk.write_atomically(tried, bytes(min(max(size, 1), MAX_TRIED_BYTES)), sync=False)
    except OSError:
        return False
    finally:
        disk.remove(tried)
    return True
