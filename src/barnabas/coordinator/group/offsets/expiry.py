"""Expiration of committed offsets, and their removal with a deleted topic.

An offset of a topic that its group is not subscribed to expires `offsets.retention.minutes` after the group
became empty, or after the commit if the group has no such time (KIP-211).  A commit by OffsetCommit 2 to 4
may have its own expiration time.
"""

from __future__ import annotations

from collections.abc import Collection

from barnabas.coordinator.decision import Context
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.group.offsets.store import OffsetStore
from barnabas.coordinator.group.offsets.values import NO_TIMESTAMP, unpack
from barnabas.coordinator.group.table import Group, OffsetExpiration
from barnabas.protocol.records.group import OffsetCommitKey

_MINUTE_MS = 60_000


def tombstone(group: str, topic: str, partition: int) -> Entry:
    """The tombstone of one offset."""
    return Entry(OffsetCommitKey(group=group, topic=topic, partition=partition), None)


def expired(store: OffsetStore, group: Group, context: Context) -> tuple[list[Entry], bool]:
    """Tombstones of expired offsets, and whether none remains, so that an empty group can be removed."""
    group_id = group.group_id
    all_expired = not store.has_pending(group_id)
    offsets = store.of_group(group_id)
    if not offsets:
        return [], all_expired
    retention_start = group.offset_expiration()
    if retention_start is None:
        return [], False
    entries: list[Entry] = []
    for topic, partitions in offsets.items():
        removed: list[int] = []
        if not group.is_subscribed_to(topic):
            removed = _expired_partitions(store, group_id, topic, retention_start, context)
        entries += [tombstone(group_id, topic, partition) for partition in removed]
        all_expired = all_expired and len(removed) == len(partitions)
    return entries, all_expired


def _expired_partitions(
    store: OffsetStore, group_id: str, topic: str, retention_start: OffsetExpiration, context: Context
) -> list[int]:
    now_ms = context.now_ms
    retention_ms = context.settings["offsets.retention.minutes"] * _MINUTE_MS
    removed = []
    for partition, value in store.of_group(group_id)[topic].items():
        committed = unpack(value)
        if committed.expire_timestamp_ms != NO_TIMESTAMP:
            is_expired = now_ms >= committed.expire_timestamp_ms
        else:
            is_expired = now_ms - retention_start(committed.commit_timestamp_ms) >= retention_ms
        # An open transaction may commit a new offset for the partition.
        if is_expired and not store.is_pending(group_id, topic, partition):
            removed.append(partition)
    return removed


def tombstones_of_group(store: OffsetStore, group_id: str) -> list[Entry]:
    """Tombstones for all offsets of a group, including pending ones."""
    offsets = store.of_group(group_id)
    committed = [(topic, partition) for topic, partitions in offsets.items() for partition in partitions]
    partitions = dict.fromkeys([*committed, *store.pending_of(group_id)])
    return [tombstone(group_id, topic, partition) for topic, partition in partitions]


def tombstones_of_topics(store: OffsetStore, topics: Collection[str]) -> list[Entry]:
    """Tombstones for all offsets of deleted topics, in all groups, including pending ones."""
    keys: dict[tuple[str, str, int], None] = {}
    for group_id in store.groups():
        offsets = store.of_group(group_id)
        for topic in topics:
            keys.update(dict.fromkeys((group_id, topic, partition) for partition in offsets.get(topic, ())))
    keys.update(dict.fromkeys(key for key in store.pending() if key[1] in topics))
    return [tombstone(*key) for key in keys]
