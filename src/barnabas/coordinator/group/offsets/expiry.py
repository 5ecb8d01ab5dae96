"""The end of offsets that nobody needs any more.

What lives here: when an offset has expired, and when it goes with its topic.  What may not: how offsets are
kept, when they are looked at, and which groups may go (the machine and the groups).

An offset of a topic that its group is not subscribed to expires `offsets.retention.minutes` after the group
became empty, or after its commit where the group has no such time (KIP-211).  A commit of OffsetCommit 2 to 4
may have brought a time of its own.
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
    """The end of one offset."""
    return Entry(OffsetCommitKey(group=group, topic=topic, partition=partition), None)


def expired(store: OffsetStore, group: Group, context: Context) -> tuple[list[Entry], bool]:
    """Tombstones of what has expired, and whether nothing is left, so that an empty group may go."""
    group_id = group.group_id
    is_nothing_left = not store.has_pending(group_id)
    offsets = store.of_group(group_id)
    if not offsets:
        return [], is_nothing_left
    counts_from = group.offset_expiration()
    if counts_from is None:
        return [], False
    entries: list[Entry] = []
    for topic, partitions in offsets.items():
        removed: list[int] = []
        if not group.is_subscribed_to(topic):
            removed = _expired_partitions(store, group_id, topic, counts_from, context)
        entries += [tombstone(group_id, topic, partition) for partition in removed]
        is_nothing_left = is_nothing_left and len(removed) == len(partitions)
    return entries, is_nothing_left


def _expired_partitions(
    store: OffsetStore, group_id: str, topic: str, counts_from: OffsetExpiration, context: Context
) -> list[int]:
    now_ms = context.now_ms
    retention_ms = context.settings["offsets.retention.minutes"] * _MINUTE_MS
    removed = []
    for partition, value in store.of_group(group_id)[topic].items():
        committed = unpack(value)
        if committed.expire_timestamp_ms != NO_TIMESTAMP:
            is_expired = now_ms >= committed.expire_timestamp_ms
        else:
            is_expired = now_ms - counts_from(committed.commit_timestamp_ms) >= retention_ms
        # An open transaction is about to say something about the partition.
        if is_expired and not store.is_pending(group_id, topic, partition):
            removed.append(partition)
    return removed


def of_all(store: OffsetStore, group_id: str) -> list[Entry]:
    """The end of every offset of a group, pending ones included."""
    offsets = store.of_group(group_id)
    committed = [(topic, partition) for topic, partitions in offsets.items() for partition in partitions]
    both = dict.fromkeys([*committed, *store.pending_of(group_id)])
    return [tombstone(group_id, topic, partition) for topic, partition in both]


def of_topics(store: OffsetStore, topics: Collection[str]) -> list[Entry]:
    """The end of every offset of topics that are deleted, in every group, pending ones included."""
    found: dict[tuple[str, str, int], None] = {}
    for group_id in store.groups():
        offsets = store.of_group(group_id)
        for topic in topics:
            found.update(dict.fromkeys((group_id, topic, partition) for partition in offsets.get(topic, ())))
    found.update(dict.fromkeys(one for one in store.pending() if one[1] in topics))
    return [tombstone(*one) for one in found]
