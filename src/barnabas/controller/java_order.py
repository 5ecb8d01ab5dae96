"""The order in which a hash map of Java hands out its keys.

Apache Kafka keeps the options of a request in one, so its records and answers come in that order; ours
follow, so that two logs can be laid side by side.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.base.hashing import java_string_hash

_FIRST_BUCKETS = 16
_LOAD_FACTOR = 0.75


def hash_map_order(keys: Iterable[str], buckets: int = _FIRST_BUCKETS) -> list[str]:
    """Distinct keys, in the order of their buckets; those of one bucket as they came.

    `buckets` is how many a map was made with, a power of two.
    """
    distinct = list(dict.fromkeys(keys))
    while len(distinct) > buckets * _LOAD_FACTOR:
        buckets *= 2
    return sorted(distinct, key=lambda key: _bucket(key, buckets))


def _bucket(key: str, buckets: int) -> int:
    hashed = java_string_hash(key) & 0xFFFFFFFF
    return (hashed ^ hashed >> 16) & (buckets - 1)
