"""Committed offsets, as a part of the group machine.

What lives here: how entries and markers change the offsets.  What may not: who may commit, read or delete
(`offsets_commit`, `offsets_fetch`, `offsets_delete`), and when offsets expire (`offsets_expiry`).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from barnabas.coordinator.decision import Context, ProducerStamp
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.group.offsets import expiry as offsets_expiry
from barnabas.coordinator.group.offsets.store import OffsetStore
from barnabas.coordinator.group.offsets.values import check, pack
from barnabas.coordinator.group.part import Part
from barnabas.metadata.delta import Delta
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.records.group import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.coordinator.group.machine import GroupMachine

# A key has its type, the names of group and topic, each behind its length, and the partition.
_INT16 = struct.Struct(">h")
_NAMES_START = 2 * _INT16.size
_PARTITION = struct.Struct(">i")
# Groups and topics that loading remembers by the bytes of their keys.
MAX_KNOWN_PREFIXES = 100_000


class _Known(NamedTuple):
    """What the start of a key stands for."""

    group: str
    topic: str
    partitions: dict[int, bytes]


class Offsets(Part):
    """The offsets of every group of one shard."""

    keys: ClassVar[tuple[type[Message], ...]] = (OffsetCommitKey,)
    # The older form of offsets is still read.
    raw_types: ClassVar[tuple[int, ...]] = (0, 1)

    def __init__(self, machine: GroupMachine) -> None:
        super().__init__(machine)
        self.store = OffsetStore()
        # While a log is loaded: most keys differ from an earlier one in their partition alone.
        self._prefixes: dict[bytes, _Known] = {}

    # Durable state

    def apply(self, entry: Entry, stamp: ProducerStamp | None) -> None:
        key, value = entry.key, entry.value
        assert isinstance(key, OffsetCommitKey), "offsets are written in the newer form alone"
        if value is None:
            self.store.remove(key.group, key.topic, key.partition)
            return
        assert isinstance(value, OffsetCommitValue), "a value goes with its key"
        self._put(key.group, key.topic, key.partition, pack(value, entry.value_version), stamp)

    def load_row(self, key: bytes, value: bytes | None, stamp: ProducerStamp | None) -> None:
        known = self._prefixes.get(key[:-4])
        if known is None or value is None or stamp is not None:
            self._load(key, value, stamp)
            return
        check(value)
        partition: int = _PARTITION.unpack_from(key, len(key) - 4)[0]
        if self.store.has_open_transactions:
            self.store.put(known.group, known.topic, partition, value)
        else:
            known.partitions[partition] = value

    def _load(self, key: bytes, value: bytes | None, stamp: ProducerStamp | None) -> None:
        group, topic, partition, size = read_key(key)
        if value is None:
            if self.store.remove(group, topic, partition):
                for kind in self.raw_types:
                    self._prefixes.pop(_INT16.pack(kind) + key[_INT16.size : size - 4], None)
            return
        check(value)
        self._put(group, topic, partition, value, stamp)
        if stamp is None and len(key) == size:
            if len(self._prefixes) >= MAX_KNOWN_PREFIXES:
                self._prefixes.clear()
            self._prefixes[key[:-4]] = _Known(group, topic, self.store.partitions(group, topic))

    def _put(self, group: str, topic: str, partition: int, value: bytes, stamp: ProducerStamp | None) -> None:
        if group not in self.machine.table:
            # Nobody joined it: its consumers assign themselves.
            self.machine.classic.get_or_create_simple(group)
        if stamp is None:
            self.store.put(group, topic, partition, value)
        else:
            self.store.put_pending(stamp.producer_id, group, topic, partition, value)

    def marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        self.store.end(producer_id, committed=committed)

    def group_removed(self, group_id: str) -> None:
        """A later commit makes it anew."""
        self._prefixes.clear()

    # Soft state

    def loaded(self, context: Context) -> None:
        self._prefixes = {}

    def metadata_changed(self, delta: Delta, context: Context) -> list[Entry]:
        """Offsets go with their topic: one that is created under its name later begins anew."""
        removed = {topic.name for topic in delta.removed_topics}
        return offsets_expiry.of_topics(self.store, removed) if removed else []

    # What the machine asks

    def has_offsets(self, group_id: str) -> bool:
        return bool(self.store.of_group(group_id)) or self.store.has_pending(group_id)

    def count(self, group_id: str) -> int:
        """Committed ones."""
        return sum(map(len, self.store.of_group(group_id).values()))

    def tombstones(self, group_id: str) -> list[Entry]:
        """The end of all offsets of a group that is deleted."""
        return offsets_expiry.of_all(self.store, group_id)

    def expired(self, group_id: str, context: Context) -> tuple[list[Entry], bool]:
        """Tombstones of expired offsets, and whether none is left."""
        return offsets_expiry.expired(self.store, self.machine.table.find(group_id), context)


def read_key(key: bytes) -> tuple[str, str, int, int]:
    """Group, topic and partition of an offset's key, of either type, and how much of it they take."""
    try:
        middle = _NAMES_START + _INT16.unpack_from(key, _INT16.size)[0]
        end = middle + _INT16.size + _INT16.unpack_from(key, middle)[0]
        partition: int = _PARTITION.unpack_from(key, end)[0]
    except struct.error as error:
        raise ProtocolError(f"the key of an offset cannot be read: {error}") from error
    if not _NAMES_START <= middle <= end - _INT16.size:
        raise ProtocolError("the key of an offset has a name of a negative length")
    group, topic = key[_NAMES_START:middle], key[middle + _INT16.size : end]
    return group.decode(), topic.decode(), partition, end + _PARTITION.size
