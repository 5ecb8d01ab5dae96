"""The combined subscriptions of a group's members.

Counts subscriptions, checks whether all are the same, and computes the hash that detects changes of the
subscribed topics (KIP-1101).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import NamedTuple

from barnabas.base.xxh3 import xxh3_64
from barnabas.metadata.image import Image
from barnabas.metadata.topics import Topic

# The version of the topic hash.
_HASH_MAGIC = b"\x00"
_INT32 = Struct("<i")
_INT64 = Struct("<Q")
_TOPIC_ID = Struct("<qq")


class SubscriptionCount(NamedTuple):
    """The number of members that subscribe to a topic by name, and of patterns that match it."""

    by_name: int = 0
    by_regex: int = 0


Counts = Mapping[str, SubscriptionCount]
_NOT_COUNTED = SubscriptionCount()


def count_names(counts: dict[str, SubscriptionCount], names: Iterable[str], step: int) -> None:
    """Add or remove (`step` -1) a member that subscribes to these topics by name."""
    for name in names:
        known = counts.get(name, _NOT_COUNTED)
        _set(counts, name, SubscriptionCount(known.by_name + step, known.by_regex))


def count_regex(counts: dict[str, SubscriptionCount], topics: Iterable[str], step: int) -> None:
    """Add or remove a pattern that matches these topics."""
    for name in topics:
        known = counts.get(name, _NOT_COUNTED)
        _set(counts, name, SubscriptionCount(known.by_name, known.by_regex + step))


def _set(counts: dict[str, SubscriptionCount], name: str, count: SubscriptionCount) -> None:
    if count.by_name <= 0 and count.by_regex <= 0:
        counts.pop(name, None)
    else:
        counts[name] = count


def count_one(counts: dict[str, int], key: str | None, step: int) -> None:
    """Count members by an attribute."""
    if key is None:
        return
    count = counts.get(key, 0) + step
    if count > 0:
        counts[key] = count
    else:
        counts.pop(key, None)


def is_homogeneous(regexes: Mapping[str, int], counts: Counts, members: int) -> bool:
    """Whether all members subscribe to exactly the same topics, as far as the counts show."""
    if not regexes:
        return all(count.by_name == members for count in counts.values())
    if next(iter(regexes.values())) != members:
        return False
    return all(count.by_regex == 1 and count.by_name <= 0 for count in counts.values())


class TopicHashes:
    """Cached hashes of unchanged topics."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Topic, int]] = {}

    def of_group(self, names: Iterable[str], image: Image) -> int:
        """The signed hash of all existing subscribed topics; 0 if there are none."""
        hashes = [
            _INT64.pack(self._of_topic(topic, image))
            for name in sorted(names)
            if (topic := image.topic_named(name)) is not None
        ]
        return _signed(xxh3_64(b"".join(hashes))) if hashes else 0

    def forget(self, name: str) -> None:
        """Called when no group subscribes to the topic any more."""
        self._known.pop(name, None)

    def _of_topic(self, topic: Topic, image: Image) -> int:
        known = self._known.get(topic.name)
        if known is not None and known[0] is topic:
            return known[1]
        hashed = topic_hash(topic, image)
        self._known[topic.name] = (topic, hashed)
        return hashed


def topic_hash(topic: Topic, image: Image) -> int:
    """The hash of id, name, and the racks of each partition's replicas."""
    pieces = [
        _HASH_MAGIC,
        _TOPIC_ID.pack(topic.id.most_significant, topic.id.least_significant),
        _text(topic.name),
        _INT32.pack(len(topic.partitions)),
    ]
    brokers = image.brokers
    for number in range(len(topic.partitions)):
        pieces.append(_INT32.pack(number))
        replicas = (brokers.get(replica) for replica in topic.partitions[number].replicas)
        racks = (broker.rack for broker in replicas if broker is not None and broker.rack is not None)
        for rack in sorted(racks, key=_utf16):
            pieces += (_INT32.pack(len(_utf16(rack)) // 2), _text(rack))
    return xxh3_64(b"".join(pieces))


def _text(text: str) -> bytes:
    """The UTF-16 units of a text and their number, as in Java."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _INT32.pack(len(units) // 2)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word
