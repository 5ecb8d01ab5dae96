"""Hashes that decide where things go, as Apache Kafka's Java code computes them.

What lives here: murmur2 for the partition of a key, and Java's String.hashCode for the coordinator of a group
or a transaction.  What may not: checksums, which live with what they protect.
"""

from __future__ import annotations

from functools import lru_cache

# Groups and transactional ids whose partition is not computed for every request.
KEYS_REMEMBERED = 10_000
# What is remembered is bounded in bytes: longer keys, of which a client may send thirty-two thousand
# characters, are hashed each time.
LONGEST_REMEMBERED = 249
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
    """The partition that the default partitioner of the Java client gives a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def java_string_hash(text: str) -> int:
    """`String.hashCode()`: over UTF-16 code units, as a signed number."""
    hashed = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        hashed = (31 * hashed + (units[position] << 8 | units[position + 1])) & _MASK
    return _signed(hashed)


def partition_for_group(group_id: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` that keeps a group, or of `__transaction_state` a transaction."""
    if len(group_id) > LONGEST_REMEMBERED:
        return _partition_for_group(group_id, partitions)
    return _remembered(group_id, partitions)


def _partition_for_group(group_id: str, partitions: int) -> int:
    hashed = java_string_hash(group_id)
    # Java's own Math.abs leaves the smallest int negative; Apache Kafka takes 0 for it.
    return (0 if hashed == -(2**31) else abs(hashed)) % partitions


_remembered = lru_cache(KEYS_REMEMBERED)(_partition_for_group)


def _signed(word: int) -> int:
    return word - 2**32 if word >= 2**31 else word
