"""The offset map of compaction: the hash of a key -> the last offset at which it was seen.

What lives here: an open-addressed table in one piece of memory, 24 bytes an entry, as many as Apache Kafka's
takes.  What may not: what is entered and when (compact.py).
"""

from __future__ import annotations

from typing import Final, final

from librt.vecs import vec
from mypy_extensions import i64

# Two 64-bit hashes of the key, and the offset.
WORDS_PER_ENTRY: Final = 3
BYTES_PER_ENTRY: Final = 24
# So many places drawn from both hashes are tried before the search goes on slot by slot.
DRAWN_PROBES: Final = 16
_SECOND_HASH: Final = b"\x00barnabas"
_LOW_63_BITS: Final = 0x7FFF_FFFF_FFFF_FFFF


@final
class OffsetMap:
    """The last offset of each key, by hash.  Keys are not kept: 128 bits of keyed SipHash tell them apart.

    The map is of fixed size and never deletes.  Python's own `hash` of bytes is SipHash with a key drawn at
    process start, so nobody can prepare keys that collide; its value never leaves the process.
    """

    def __init__(self, slots: i64) -> None:
        if slots < 1:
            raise ValueError("an offset map needs at least one slot")
        self.slots: i64 = slots
        self.size: i64 = 0
        self.latest_offset: i64 = -1
        self._table: vec[i64] = vec[i64]([0] * (slots * WORDS_PER_ENTRY))

    def _find(self, first: i64, second: i64) -> i64:
        """Where the entry of that key is or would go; -1 when it is not there and the map is full."""
        table = self._table
        slots = self.slots
        attempt: i64 = 0
        slot: i64 = 0
        while attempt < DRAWN_PROBES:
            slot = ((first + attempt * second) & _LOW_63_BITS) % slots
            at: i64 = slot * WORDS_PER_ENTRY
            if table[at + 2] == 0 or (table[at] == first and table[at + 1] == second):
                return at
            attempt += 1
        remaining: i64 = slots
        while remaining > 0:
            slot += 1
            if slot == slots:
                slot = 0
            at = slot * WORDS_PER_ENTRY
            if table[at + 2] == 0 or (table[at] == first and table[at + 1] == second):
                return at
            remaining -= 1
        return -1

    def put(self, key: bytes, offset: i64) -> None:
        first: i64 = hash(key)
        second: i64 = hash(key + _SECOND_HASH)
        at = self._find(first, second)
        if at < 0:
            raise ValueError("the offset map is full")
        table = self._table
        if table[at + 2] == 0:
            table[at] = first
            table[at + 1] = second
            self.size += 1
        table[at + 2] = offset + 1  # so that a slot of zeroes is an empty one
        self.latest_offset = offset

    def get(self, key: bytes) -> i64:
        """The last offset of the key, or -1."""
        first: i64 = hash(key)
        second: i64 = hash(key + _SECOND_HASH)
        at = self._find(first, second)
        if at < 0:
            return -1
        return self._table[at + 2] - 1
