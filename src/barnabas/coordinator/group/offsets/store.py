"""The offsets of one shard: committed ones, and those pending in open transactions.

Offsets are stored as bytes, see `values`.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

# Topic -> partition -> the value of the offset's record.
GroupOffsets: TypeAlias = dict[str, dict[int, bytes]]

_NO_OFFSETS: Mapping[str, Mapping[int, bytes]] = MappingProxyType({})


class OffsetStore:
    """All offsets of one shard, by group, topic and partition."""

    __slots__ = ("_groups", "_open", "_producers")

    def __init__(self) -> None:
        self._groups: dict[str, GroupOffsets] = {}
        # Group -> (topic, partition) -> producer id -> pending value, in log order.  None marks a value that
        # a later commit has superseded: it keeps the partition unstable until its marker.
        self._open: dict[str, dict[tuple[str, int], dict[int, bytes | None]]] = {}
        # Producer id -> its pending offsets, in order.
        self._producers: dict[int, dict[tuple[str, str, int], None]] = {}

    # Committed offsets

    def get(self, group: str, topic: str, partition: int) -> bytes | None:
        topics = self._groups.get(group)
        if topics is None:
            return None
        partitions = topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def of_group(self, group: str) -> Mapping[str, Mapping[int, bytes]]:
        """By topic and partition; empty if there are none."""
        return self._groups.get(group, _NO_OFFSETS)

    def groups(self) -> Collection[str]:
        """Groups with committed offsets."""
        return self._groups.keys()

    def count(self) -> int:
        """The number of committed offsets."""
        return sum(len(partitions) for topics in self._groups.values() for partitions in topics.values())

    def put(self, group: str, topic: str, partition: int, value: bytes) -> None:
        """A commit outside of a transaction."""
        self.partitions(group, topic)[partition] = value
        if self._open:
            self._supersede_pending(group, topic, partition)

    def partitions(self, group: str, topic: str) -> dict[int, bytes]:
        """The dict of one topic, created on demand; topic names are interned to store each only once."""
        topics = self._groups.get(group)
        if topics is None:
            topics = self._groups[group] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[sys.intern(topic)] = {}
        return partitions

    def remove(self, group: str, topic: str, partition: int) -> bool:
        """Remove the committed and pending offset; returns whether the topic has no committed offset left."""
        for producer_id in list(self._pending_at(group, topic, partition)):
            del self._producers[producer_id][group, topic, partition]
            self._remove_pending(group, topic, partition, producer_id)
        topics = self._groups.get(group, {})
        partitions = topics.get(topic)
        if partitions is None:
            return True
        partitions.pop(partition, None)
        if partitions:
            return False
        del topics[topic]
        if not topics:
            del self._groups[group]
        return True

    # Pending offsets

    @property
    def has_open_transactions(self) -> bool:
        return bool(self._open)

    def put_pending(self, producer_id: int, group: str, topic: str, partition: int, value: bytes) -> None:
        """A commit that takes effect with its transaction."""
        pending = self._open.setdefault(group, {}).setdefault((sys.intern(topic), partition), {})
        # The order of the last commits counts.
        pending.pop(producer_id, None)
        pending[producer_id] = value
        self._producers.setdefault(producer_id, {})[group, topic, partition] = None

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has committed an offset for this partition."""
        return bool(self._pending_at(group, topic, partition))

    def has_pending(self, group: str) -> bool:
        return group in self._open

    def pending_of(self, group: str) -> Collection[tuple[str, int]]:
        """(topic, partition) of every pending offset."""
        return self._open.get(group, {}).keys()

    def pending(self) -> Iterator[tuple[str, str, int]]:
        """(group, topic, partition) of all pending offsets."""
        for group, partitions in self._open.items():
            for topic, partition in partitions:
                yield group, topic, partition

    def complete_transaction(self, producer_id: int, *, committed: bool) -> dict[str, int]:
        """Apply a transaction marker; returns the number of affected offsets by group.

        The later of two commits in the log wins, transactional or not: otherwise compaction, which keeps the
        later record, would change the result of a reload.
        """
        affected: dict[str, int] = {}
        for group, topic, partition in self._producers.pop(producer_id, ()):
            pending = self._pending_at(group, topic, partition)
            value = pending[producer_id]
            if committed and value is not None:
                for earlier in pending:
                    if earlier == producer_id:
                        break
                    pending[earlier] = None
                self.partitions(group, topic)[partition] = value
            self._remove_pending(group, topic, partition, producer_id)
            affected[group] = affected.get(group, 0) + 1
        return affected

    def _pending_at(self, group: str, topic: str, partition: int) -> dict[int, bytes | None]:
        partitions = self._open.get(group)
        return {} if partitions is None else partitions.get((topic, partition), {})

    def _supersede_pending(self, group: str, topic: str, partition: int) -> None:
        pending = self._pending_at(group, topic, partition)
        for producer_id in pending:
            pending[producer_id] = None

    def _remove_pending(self, group: str, topic: str, partition: int, producer_id: int) -> None:
        partitions = self._open[group]
        pending = partitions[topic, partition]
        del pending[producer_id]
        if not pending:
            del partitions[topic, partition]
            if not partitions:
                del self._open[group]
