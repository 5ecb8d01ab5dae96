"""Log directories without space: which there are, and why no log there is appended to.

A full directory stays online: reads, deletions and moves go on.  When there is room is found out by
space_watch.py; that a failed append leaves a log unchanged belongs in log/.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition

logger = logging.getLogger(__name__)

# A directory that has become full, and why; or that has room again (None).
SpaceListener = Callable[[str, str | None], None]


class FullDirectories:
    """The full directories of one log manager."""

    def __init__(self, logs_in: Callable[[str], Mapping[TopicPartition, Log]]) -> None:
        self._logs_in = logs_in
        self._reasons: dict[str, str] = {}
        self.listeners: list[SpaceListener] = []

    def __contains__(self, log_dir: str) -> bool:
        return log_dir in self._reasons

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._reasons))

    def __len__(self) -> int:
        return len(self._reasons)

    def reason(self, log_dir: str) -> str | None:
        """Why the directory takes no writes; None if it does."""
        return self._reasons.get(log_dir)

    def add(self, log_dir: str, reason: str) -> None:
        """The directory has no space: its logs refuse appends until `has_room`."""
        if log_dir in self._reasons:
            return
        self._reasons[log_dir] = reason
        logs = self._logs_in(log_dir)
        for log in logs.values():
            log.full = reason
        logger.error(
            "%s is full: writes to its %d partitions are refused until there is room; reads, deletions and"
            " moves go on (%s)",
            log_dir,
            len(logs),
            reason,
        )
        self._tell(log_dir, reason)

    def unsynced_tails(self, log_dir: str) -> list[Log]:
        """Logs off which an append was cut: they must be flushed before the next one."""
        return [log for log in self._logs_in(log_dir).values() if log.local.is_tail_unsynced]

    def has_room(self, log_dir: str) -> None:
        """The directory has space again, and no log with an unsynced tail."""
        if self._reasons.pop(log_dir, None) is not None:
            for log in self._logs_in(log_dir).values():
                log.full = None
            logger.warning("%s has room again: writes are accepted", log_dir)
            self._tell(log_dir, None)

    def forget(self, log_dir: str) -> None:
        """The directory is offline."""
        self._reasons.pop(log_dir, None)

    def _tell(self, log_dir: str, reason: str | None) -> None:
        for listener in list(self.listeners):
            listener(log_dir, reason)
