"""Partitions by what the controller looks them up by: in-sync and eligible replicas, leaders, directories.

A broker that stops must not cost a walk over all partitions.  The index follows the image, delta by delta.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from barnabas.base.ids import Uuid
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image
from barnabas.metadata.topics import NO_LEADER, Partition, Topic

K = TypeVar("K", int, Uuid)

Key = tuple[Uuid, int]
Entry = tuple[Topic, int, Partition]


class PartitionIndex:
    """The keys of partitions; the partitions themselves are in the image."""

    def __init__(self, image: Image) -> None:
        self._in_isr: dict[int, set[Key]] = {}
        self._in_elr: dict[int, set[Key]] = {}
        self._led_by: dict[int, set[Key]] = {}
        self._in_directory: dict[Uuid, set[Key]] = {}
        # Led by another replica than the preferred one, or by none.
        self._imbalanced: set[Key] = set()
        for topic_id, topic in image.topics.items():
            for number, partition in topic.partitions.items():
                self._add((topic_id, number), partition)

    def follow(self, delta: Delta) -> None:
        before_topics, after_topics = delta.before.topics, delta.image.topics
        for key in delta.partitions:
            topic_id, number = key
            old_topic, new_topic = before_topics.get(topic_id), after_topics.get(topic_id)
            before = None if old_topic is None else old_topic.partitions.get(number)
            after = None if new_topic is None else new_topic.partitions.get(number)
            if before is None or after is None or before.replicas != after.replicas:
                if before is not None:
                    self._remove(key, before)
                if after is not None:
                    self._add(key, after)
            else:
                self._change(key, before, after)

    def _change(self, key: Key, before: Partition, after: Partition) -> None:
        """Most changes concern the ISR and the leader alone."""
        if before.isr != after.isr:
            _discard(self._in_isr, before.isr, key)
            for broker_id in after.isr:
                self._in_isr.setdefault(broker_id, set()).add(key)
        if before.elr != after.elr:
            _discard(self._in_elr, before.elr, key)
            for broker_id in after.elr:
                self._in_elr.setdefault(broker_id, set()).add(key)
        if before.directories != after.directories:
            _discard(self._in_directory, before.directories, key)
            for directory in after.directories:
                self._in_directory.setdefault(directory, set()).add(key)
        if before.leader != after.leader:
            _discard(self._led_by, (before.leader,), key)
            self._led_by.setdefault(after.leader, set()).add(key)
            if after.leader != after.replicas[0]:
                self._imbalanced.add(key)
            else:
                self._imbalanced.discard(key)

    def _add(self, key: Key, partition: Partition) -> None:
        for broker_id in partition.isr:
            self._in_isr.setdefault(broker_id, set()).add(key)
        for broker_id in partition.elr:
            self._in_elr.setdefault(broker_id, set()).add(key)
        self._led_by.setdefault(partition.leader, set()).add(key)
        for directory in partition.directories:
            self._in_directory.setdefault(directory, set()).add(key)
        if partition.leader != partition.replicas[0]:
            self._imbalanced.add(key)

    def _remove(self, key: Key, partition: Partition) -> None:
        _discard(self._in_isr, partition.isr, key)
        _discard(self._in_elr, partition.elr, key)
        _discard(self._led_by, (partition.leader,), key)
        _discard(self._in_directory, partition.directories, key)
        self._imbalanced.discard(key)

    # Queries, in a deterministic order

    def in_isr(self, image: Image, broker_id: int) -> Iterator[Entry]:
        return _entries(image, self._in_isr.get(broker_id, ()))

    def in_elr(self, image: Image, broker_id: int) -> Iterator[Entry]:
        return _entries(image, self._in_elr.get(broker_id, ()))

    def leaderless(self, image: Image) -> Iterator[Entry]:
        return _entries(image, self._led_by.get(NO_LEADER, ()))

    def imbalanced(self, image: Image) -> Iterator[Entry]:
        return _entries(image, self._imbalanced)

    def in_directory(self, image: Image, directory: Uuid) -> Iterator[Entry]:
        return _entries(image, self._in_directory.get(directory, ()))

    def leads_any(self, broker_id: int) -> bool:
        return broker_id in self._led_by


def _discard(sets: dict[K, set[Key]], names: Iterable[K], key: Key) -> None:
    for name in names:
        keys = sets.get(name)
        if keys is not None:
            keys.discard(key)
            if not keys:
                del sets[name]


def _entries(image: Image, keys: Iterable[Key]) -> Iterator[Entry]:
    for topic_id, number in sorted(keys):
        topic = image.topics[topic_id]
        yield topic, number, topic.partitions[number]
