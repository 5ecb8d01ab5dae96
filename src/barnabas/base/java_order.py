"""The order in which a hash map of Java hands out its keys.

Where Apache Kafka goes through such a map, its records, its answers and its choices come in that order; ours
follow, so that two logs can be laid side by side and two coordinators choose alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from barnabas.base.hashing import java_string_hash

K = TypeVar("K")

FIRST_BUCKETS = 16
_LOAD_FACTOR = 0.75


def hash_map_order(keys: Iterable[str], buckets: int = FIRST_BUCKETS) -> list[str]:
    """Distinct strings, in the order of their buckets; those of one bucket as they came.

    `buckets` is how many a map was made with, a power of two.
    """
    return order_by_hash(keys, java_string_hash, buckets)


def order_by_hash(keys: Iterable[K], hash_code: Callable[[K], int], buckets: int = FIRST_BUCKETS) -> list[K]:
    """The same for keys of any kind, by what their `hashCode()` gives."""
    distinct = list(dict.fromkeys(keys))
    while len(distinct) > buckets * _LOAD_FACTOR:
        buckets *= 2

    def bucket(key: K) -> int:
        hashed = hash_code(key) & 0xFFFFFFFF
        return (hashed ^ hashed >> 16) & (buckets - 1)

    return sorted(distinct, key=bucket)


def buckets_of_copy(size: int) -> int:
    """How many buckets a set begins with that is made as the copy of a collection of this size."""
    wanted = max(int(size / _LOAD_FACTOR) + 1, FIRST_BUCKETS)
    return 1 << (wanted - 1).bit_length()


def buckets_for(size: int) -> int:
    """How many buckets a map begins with that is made for so many keys."""
    return 1 << max(0, size - 1).bit_length()


def partition_hash(partition: tuple[str, int]) -> int:
    """`hashCode()` of Apache Kafka's class for a topic's name and a partition's number."""
    topic, number = partition
    return 31 * (31 + number) + java_string_hash(topic)
