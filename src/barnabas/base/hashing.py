"""Hashes that decide placement, as Apache Kafka's Java code computes them.

Contains murmur2 for the partition of a key, and Java's String.hashCode for the coordinator of a group or a
transaction.  Checksums belong with the data they protect.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache

# Groups and transactional ids whose partition is cached.
CACHED_KEYS_MAX = 10_000
# The cache is bounded in bytes too: longer keys (a client may send 32,767 characters) are hashed each time.
CACHED_KEY_LENGTH_MAX = 249
_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """The 32-bit hash of a key, as a signed number like Java's int."""
    length = len(data)
    hashed = (_SEED ^ length) & _MASK
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little")
        word = (word * _MULTIPLIER) & _MASK
        word ^= word >> 24
        word = (word * _MULTIPLIER) & _MASK
        hashed = (hashed * _MULTIPLIER) & _MASK ^ word
    if length > whole:
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = (hashed * _MULTIPLIER) & _MASK
    hashed ^= hashed >> 13
    hashed = (hashed * _MULTIPLIER) & _MASK
    hashed ^= hashed >> 15
    return _signed(hashed)


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition that the Java client's default partitioner assigns to a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def java_string_hash(text: str) -> int:
    """`String.hashCode()`: over UTF-16 code units, as a signed number."""
    hashed = 0
    # The code units of ASCII are its bytes: a request may have a hundred thousand names.
    for unit in text.encode() if text.isascii() else _utf16_units(text):
        hashed = (31 * hashed + unit) & _MASK
    return _signed(hashed)


def _utf16_units(text: str) -> Iterator[int]:
    return (unit for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")))


def partition_for_group(group_id: str, partitions: int) -> int:
    """The `__consumer_offsets` partition of a group, or the `__transaction_state` partition of a
    transaction."""
    if len(group_id) > CACHED_KEY_LENGTH_MAX:
        return _partition_for_group(group_id, partitions)
    return _cached_partition_for_group(group_id, partitions)


def _partition_for_group(group_id: str, partitions: int) -> int:
    hashed = java_string_hash(group_id)
    # Java's Math.abs leaves the smallest int negative; Apache Kafka uses 0 for it.
    return (0 if hashed == -(2**31) else abs(hashed)) % partitions


_cached_partition_for_group = lru_cache(CACHED_KEYS_MAX)(_partition_for_group)


def _signed(word: int) -> int:
    return word - 2**32 if word >= 2**31 else word
