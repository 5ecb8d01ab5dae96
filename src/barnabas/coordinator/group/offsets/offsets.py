"""Committed offsets, as a component of the group machine.

Applies entries and markers to the offsets.  Requests belong in `commit`, `fetch` and `delete`, expiration in
`expiry`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from barnabas.coordinator.decision import Context, ProducerStamp
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.group.component import GroupComponent
from barnabas.coordinator.group.offsets import expiry as offsets_expiry
from barnabas.coordinator.group.offsets.store import OffsetStore
from barnabas.coordinator.group.offsets.values import check, pack
from barnabas.metadata.delta import Delta
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.records.group import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.coordinator.group.machine import GroupMachine

# A key consists of its type, the group and topic names with their lengths, and the partition.
_INT16 = struct.Struct(">h")
_NAMES_START = 2 * _INT16.size
_PARTITION = struct.Struct(">i")
# The maximum number of key prefixes (group and topic) cached while loading.
MAX_KNOWN_PREFIXES = 100_000


class _KeyPrefix(NamedTuple):
    """The decoded prefix of a key."""

    group: str
    topic: str
    partitions: dict[int, bytes]


class Offsets(GroupComponent):
    """The offsets of every group of one shard."""

    keys: ClassVar[tuple[type[Message], ...]] = (OffsetCommitKey,)
    # Type 0 is the old key type, which is still read.
    raw_types: ClassVar[tuple[int, ...]] = (0, 1)

    def __init__(self, machine: GroupMachine) -> None:
        super().__init__(machine)
        self.store = OffsetStore()
        # While loading: most keys differ from an earlier one only in the partition.
        self._prefixes: dict[bytes, _KeyPrefix] = {}

    # Durable state

    def apply(self, entry: Entry, stamp: ProducerStamp | None) -> None:
        key, value = entry.key, entry.value
        assert isinstance(key, OffsetCommitKey), "only this key type is written"
        if value is None:
            self.store.remove(key.group, key.topic, key.partition)
            return
        assert isinstance(value, OffsetCommitValue), "the value type of this key"
        self._put(key.group, key.topic, key.partition, pack(value, entry.value_version), stamp)

    def load_row(self, key: bytes, value: bytes | None, stamp: ProducerStamp | None) -> None:
        prefix = self._prefixes.get(key[:-4])
        if prefix is None or value is None or stamp is not None:
            self._load(key, value, stamp)
            return
        check(value)
        partition: int = _PARTITION.unpack_from(key, len(key) - 4)[0]
        if self.store.has_open_transactions:
            self.store.put(prefix.group, prefix.topic, partition, value)
        else:
            prefix.partitions[partition] = value

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
            self._prefixes[key[:-4]] = _KeyPrefix(group, topic, self.store.partitions(group, topic))

    def _put(self, group: str, topic: str, partition: int, value: bytes, stamp: ProducerStamp | None) -> None:
        if group not in self.machine.table:
            # A group without members: its consumers use manual assignment.
            self.machine.classic.get_or_create_simple(group)
        if stamp is None:
            self.store.put(group, topic, partition, value)
        else:
            self.store.put_pending(stamp.producer_id, group, topic, partition, value)

    def marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        self.store.complete_transaction(producer_id, committed=committed)

    def group_removed(self, group_id: str) -> None:
        """A later commit creates the group again."""
        self._prefixes.clear()

    # Soft state

    def loaded(self, context: Context) -> None:
        self._prefixes = {}

    def metadata_changed(self, delta: Delta, context: Context) -> list[Entry]:
        """Offsets are removed with their topic: a new topic of the same name starts without any."""
        removed = {topic.name for topic in delta.removed_topics}
        return offsets_expiry.tombstones_of_topics(self.store, removed) if removed else []

    # Used by the machine

    def has_offsets(self, group_id: str) -> bool:
        return bool(self.store.of_group(group_id)) or self.store.has_pending(group_id)

    def count(self, group_id: str) -> int:
        """The number of committed offsets."""
        return sum(map(len, self.store.of_group(group_id).values()))

    def tombstones(self, group_id: str) -> list[Entry]:
        """Tombstones for all offsets of a deleted group."""
        return offsets_expiry.tombstones_of_group(self.store, group_id)

    def expired(self, group_id: str, context: Context) -> tuple[list[Entry], bool]:
        """Tombstones of expired offsets, and whether none remains."""
        return offsets_expiry.expired(self.store, self.machine.table.find(group_id), context)


def read_key(key: bytes) -> tuple[str, str, int, int]:
    """Returns group, topic and partition of an offset key of either type, and the size of its content."""
    try:
        middle = _NAMES_START + _INT16.unpack_from(key, _INT16.size)[0]
        end = middle + _INT16.size + _INT16.unpack_from(key, middle)[0]
        partition: int = _PARTITION.unpack_from(key, end)[0]
    except struct.error as error:
        raise ProtocolError(f"the key of an offset cannot be read: {error}") from error
    if not _NAMES_START <= middle <= end - _INT16.size:
        raise ProtocolError("the key of an offset contains a negative length")
    group, topic = key[_NAMES_START:middle], key[middle + _INT16.size : end]
    return group.decode(), topic.decode(), partition, end + _PARTITION.size
