"""murmur2 of keys, for producers; base.hashing has a plain Python version for occasional use."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

MASK: Final = 0xFFFF_FFFF
SEED: Final = 0x9747_B28C
MULTIPLIER: Final = 0x5BD1_E995


def key_partition(key: bytes, partitions: i64) -> i64:
    """The partition that the Java client's default partitioner assigns to a key."""
    length: i64 = len(key)
    hashed: i64 = (SEED ^ length) & MASK
    position: i64 = 0
    whole: i64 = length & ~3
    while position < whole:
        first: i64 = key[position]
        second: i64 = key[position + 1]
        third: i64 = key[position + 2]
        fourth: i64 = key[position + 3]
        word: i64 = first | second << 8 | third << 16 | fourth << 24
        word = (word * MULTIPLIER) & MASK
        word ^= word >> 24
        word = (word * MULTIPLIER) & MASK
        hashed = ((hashed * MULTIPLIER) & MASK) ^ word
        position += 4
    if position < length:
        shift: i64 = 0
        while position < length:
            byte: i64 = key[position]
            hashed ^= byte << shift
            shift += 8
            position += 1
        hashed = (hashed * MULTIPLIER) & MASK
    hashed ^= hashed >> 13
    hashed = (hashed * MULTIPLIER) & MASK
    hashed ^= hashed >> 15
    return (hashed & 0x7FFF_FFFF) % partitions
