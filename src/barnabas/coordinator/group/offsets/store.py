"""The offsets of one shard: committed ones, and those of open transactions.

What lives here: what is committed, what is pending, and how the end of a transaction turns one into the
other.  What may not: who may commit (`offsets_commit`), and the time.

Offsets are kept as bytes, see `offsets_values`.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

# Topic -> partition -> the value of the offset's record.
GroupOffsets: TypeAlias = dict[str, dict[int, bytes]]

_NOTHING: Mapping[str, Mapping[int, bytes]] = MappingProxyType({})


class OffsetStore:
    """All offsets of one shard, by group, topic and partition."""

    __slots__ = ("_groups", "_open", "_producers")

    def __init__(self) -> None:
        self._groups: dict[str, GroupOffsets] = {}
        # Group -> (topic, partition) -> producer id -> pending value, in the order of the log.  None stands
        # for a value that a later commit has overtaken: it keeps the partition unstable until its marker.
        self._open: dict[str, dict[tuple[str, int], dict[int, bytes | None]]] = {}
        # Producer id -> what it has pending, in order.
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
        return self._groups.get(group, _NOTHING)

    def groups(self) -> Collection[str]:
        """Groups with committed offsets."""
        return self._groups.keys()

    def count(self) -> int:
        """How many offsets are committed."""
        return sum(len(partitions) for topics in self._groups.values() for partitions in topics.values())

    def put(self, group: str, topic: str, partition: int, value: bytes) -> None:
        """A commit outside of transactions."""
        self.partitions(group, topic)[partition] = value
        if self._open:
            self._overtake(group, topic, partition)

    def partitions(self, group: str, topic: str) -> dict[int, bytes]:
        """The dict of one topic, made if there is none yet: names are kept once, however often they occur."""
        topics = self._groups.get(group)
        if topics is None:
            topics = self._groups[group] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[sys.intern(topic)] = {}
        return partitions

    def remove(self, group: str, topic: str, partition: int) -> bool:
        """A tombstone takes what is committed, and what is pending; whether the topic has no offset left."""
        for producer_id in list(self._pending_at(group, topic, partition)):
            del self._producers[producer_id][group, topic, partition]
            self._close(group, topic, partition, producer_id)
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
        """A commit that counts when its transaction does."""
        pending = self._open.setdefault(group, {}).setdefault((sys.intern(topic), partition), {})
        # What counts is the order of the last words.
        pending.pop(producer_id, None)
        pending[producer_id] = value
        self._producers.setdefault(producer_id, {})[group, topic, partition] = None

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset of this partition."""
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

    def end(self, producer_id: int, *, committed: bool) -> dict[str, int]:
        """A transaction has ended: how many offsets of which groups that concerns.

        Of two commits the later one in the log wins, whichever way it was made: otherwise compaction, which
        keeps the later one, would change what a reload finds.
        """
        concerned: dict[str, int] = {}
        for group, topic, partition in self._producers.pop(producer_id, ()):
            pending = self._pending_at(group, topic, partition)
            value = pending[producer_id]
            if committed and value is not None:
                for earlier in pending:
                    if earlier == producer_id:
                        break
                    pending[earlier] = None
                self.partitions(group, topic)[partition] = value
            self._close(group, topic, partition, producer_id)
            concerned[group] = concerned.get(group, 0) + 1
        return concerned

    def _pending_at(self, group: str, topic: str, partition: int) -> dict[int, bytes | None]:
        partitions = self._open.get(group)
        return {} if partitions is None else partitions.get((topic, partition), {})

    def _overtake(self, group: str, topic: str, partition: int) -> None:
        pending = self._pending_at(group, topic, partition)
        for producer_id in pending:
            pending[producer_id] = None

    def _close(self, group: str, topic: str, partition: int, producer_id: int) -> None:
        partitions = self._open[group]
        pending = partitions[topic, partition]
        del pending[producer_id]
        if not pending:
            del partitions[topic, partition]
            if not partitions:
                del self._open[group]
