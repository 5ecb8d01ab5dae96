"""Iteration order of a Java `HashMap`.

Where Apache Kafka iterates such a map, its records, responses and choices follow that order. Barnabas uses
the same order, so that two logs compare byte for byte and two coordinators make the same choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from barnabas.base.hashing import java_string_hash

K = TypeVar("K")

FIRST_BUCKETS = 16
_LOAD_FACTOR = 0.75


def hash_map_order(keys: Iterable[str], buckets: int = FIRST_BUCKETS) -> list[str]:
    """Distinct strings in bucket order; strings that share a bucket keep their insertion order.

    `buckets` is the initial capacity of the map, a power of two.
    """
    return order_by_hash(keys, java_string_hash, buckets)


def order_by_hash(keys: Iterable[K], hash_code: Callable[[K], int], buckets: int = FIRST_BUCKETS) -> list[K]:
    """The same for keys of any type, given their `hashCode()`."""
    distinct = list(dict.fromkeys(keys))
    while len(distinct) > buckets * _LOAD_FACTOR:
        buckets *= 2

    def bucket(key: K) -> int:
        hashed = hash_code(key) & 0xFFFFFFFF
        return (hashed ^ hashed >> 16) & (buckets - 1)

    return sorted(distinct, key=bucket)


def buckets_of_copy(size: int) -> int:
    """Initial number of buckets of a `HashSet` that is built as a copy of a collection of this size."""
    wanted = max(int(size / _LOAD_FACTOR) + 1, FIRST_BUCKETS)
    return 1 << (wanted - 1).bit_length()


def buckets_for(size: int) -> int:
    """Initial number of buckets of a map that is created for this many keys."""
    return 1 << max(0, size - 1).bit_length()


def partition_hash(partition: tuple[str, int]) -> int:
    """`hashCode()` of Apache Kafka's `TopicPartition`."""
    topic, number = partition
    return 31 * (31 + number) + java_string_hash(topic)
