"""What the members of a group subscribe to, taken together.

What lives here: counting subscriptions, whether all are alike, and the hash that tells whether the subscribed
topics have changed (KIP-1101).  What may not: resolving patterns (`regexes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import NamedTuple

from barnabas.base.xxh3 import xxh3_64
from barnabas.metadata.image import Image
from barnabas.metadata.topics import Topic

# The version of how a topic is hashed.
_HASH_MAGIC = b"\x00"
_INT32 = Struct("<i")
_INT64 = Struct("<Q")
_TOPIC_ID = Struct("<qq")


class SubscriptionCount(NamedTuple):
    """How many members subscribe to a topic by name, and how many patterns stand for it."""

    by_name: int = 0
    by_regex: int = 0


Counts = Mapping[str, SubscriptionCount]
_NOT_COUNTED = SubscriptionCount()


def count_names(counts: dict[str, SubscriptionCount], names: Iterable[str], step: int) -> None:
    """Add or take away (`step` -1) a member that names these topics."""
    for name in names:
        known = counts.get(name, _NOT_COUNTED)
        _set(counts, name, SubscriptionCount(known.by_name + step, known.by_regex))


def count_regex(counts: dict[str, SubscriptionCount], topics: Iterable[str], step: int) -> None:
    """Add or take away a pattern that stands for these topics."""
    for name in topics:
        known = counts.get(name, _NOT_COUNTED)
        _set(counts, name, SubscriptionCount(known.by_name, known.by_regex + step))


def _set(counts: dict[str, SubscriptionCount], name: str, count: SubscriptionCount) -> None:
    if count.by_name <= 0 and count.by_regex <= 0:
        counts.pop(name, None)
    else:
        counts[name] = count


def count_one(counts: dict[str, int], key: str | None, step: int) -> None:
    """Count members by something that each has at most one of."""
    if key is None:
        return
    count = counts.get(key, 0) + step
    if count > 0:
        counts[key] = count
    else:
        counts.pop(key, None)


def is_homogeneous(regexes: Mapping[str, int], counts: Counts, members: int) -> bool:
    """Whether all members subscribe to exactly the same topics, as far as the counts tell."""
    if not regexes:
        return all(count.by_name == members for count in counts.values())
    if next(iter(regexes.values())) != members:
        return False
    return all(count.by_regex == 1 and count.by_name <= 0 for count in counts.values())


class TopicHashes:
    """Hashes of topics, kept while a topic is what it was."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Topic, int]] = {}

    def of_group(self, names: Iterable[str], image: Image) -> int:
        """The hash of all subscribed topics that exist, as a signed number; 0 if there is none."""
        hashes = [
            _INT64.pack(self._of_topic(topic, image))
            for name in sorted(names)
            if (topic := image.topic_named(name)) is not None
        ]
        return _signed(xxh3_64(b"".join(hashes))) if hashes else 0

    def forget(self, name: str) -> None:
        """Nobody subscribes to it any more."""
        self._known.pop(name, None)

    def _of_topic(self, topic: Topic, image: Image) -> int:
        known = self._known.get(topic.name)
        if known is not None and known[0] is topic:
            return known[1]
        hashed = topic_hash(topic, image)
        self._known[topic.name] = (topic, hashed)
        return hashed


def topic_hash(topic: Topic, image: Image) -> int:
    """Over id, name, and the racks of the replicas of each partition."""
    pieces = [
        _HASH_MAGIC,
        _TOPIC_ID.pack(topic.id.most_significant, topic.id.least_significant),
        _text(topic.name),
        _INT32.pack(len(topic.partitions)),
    ]
    brokers = image.brokers
    for number in range(len(topic.partitions)):
        pieces.append(_INT32.pack(number))
        found = (brokers.get(replica) for replica in topic.partitions[number].replicas)
        racks = (broker.rack for broker in found if broker is not None and broker.rack is not None)
        for rack in sorted(racks, key=_utf16):
            pieces += (_INT32.pack(len(_utf16(rack)) // 2), _text(rack))
    return xxh3_64(b"".join(pieces))


def _text(text: str) -> bytes:
    """Its characters as Java has them, and how many there are."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _INT32.pack(len(units) // 2)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word
