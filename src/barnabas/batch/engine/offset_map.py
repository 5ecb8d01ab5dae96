"""The offset map of compaction: the hash of a key -> the last offset of that key.

Contains an open-addressing table in pages of memory, 24 bytes per entry, like Apache Kafka's map.  What is
added and when belongs in compaction.py.
"""

from __future__ import annotations

from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64

# Two 64-bit hashes of the key, and the offset.
WORDS_PER_ENTRY: Final = 3
BYTES_PER_ENTRY: Final = 24
# A page takes 1.5 MiB: filling it with zeroes takes less than a millisecond.
PAGE_BITS: Final = 16
PAGE_SLOTS: Final = 1 << PAGE_BITS
PAGE_MASK: Final = PAGE_SLOTS - 1
# Number of probes derived from both hashes before the search continues slot by slot.
DRAWN_PROBES: Final = 16
_SECOND_HASH: Final = b"\x00barnabas"
_LOW_63_BITS: Final = 0x7FFF_FFFF_FFFF_FFFF


@final
class OffsetMap:
    """The last offset of each key, by hash.  Keys are not stored: 128 bits of keyed SipHash distinguish them.

    The map has a fixed size and never deletes.  Python's own `hash` of bytes is SipHash with a key drawn at
    process start, so clients cannot prepare colliding keys; its value never leaves the process.

    A large map allocates its memory in steps: call `reserve` until it returns False, before anything else.
    """

    def __init__(self, slots: i64) -> None:
        if slots < 1:
            raise ValueError("an offset map needs at least one slot")
        self.slots: i64 = slots
        self.size: i64 = 0
        self.latest_offset: i64 = -1
        self._pages: vec[vec[i64]] = vec[vec[i64]]()
        self.reserve()

    def reserve(self) -> bool:
        """Allocate one more page; False when all are allocated."""
        missing: i64 = self.slots - len(self._pages) * PAGE_SLOTS
        if missing <= 0:
            return False
        slots: i64 = PAGE_SLOTS if missing > PAGE_SLOTS else missing
        self._pages = append(self._pages, vec[i64]([0] * (slots * WORDS_PER_ENTRY)))
        return missing > PAGE_SLOTS

    def _find(self, first: i64, second: i64) -> i64:
        """The slot of the key, or a free one for it; -1 when it is missing and the map is full."""
        slots = self.slots
        attempt: i64 = 0
        slot: i64 = 0
        while attempt < DRAWN_PROBES:
            slot = ((first + attempt * second) & _LOW_63_BITS) % slots
            if self._fits(slot, first, second):
                return slot
            attempt += 1
        remaining: i64 = slots
        while remaining > 0:
            slot += 1
            if slot == slots:
                slot = 0
            if self._fits(slot, first, second):
                return slot
            remaining -= 1
        return -1

    def _fits(self, slot: i64, first: i64, second: i64) -> bool:
        """Whether a slot is empty or has this key."""
        page = self._pages[slot >> PAGE_BITS]
        at: i64 = (slot & PAGE_MASK) * WORDS_PER_ENTRY
        return page[at + 2] == 0 or (page[at] == first and page[at + 1] == second)

    def put(self, key: bytes, offset: i64) -> None:
        first: i64 = hash(key)
        second: i64 = hash(key + _SECOND_HASH)
        slot = self._find(first, second)
        if slot < 0:
            raise ValueError("the offset map is full")
        page = self._pages[slot >> PAGE_BITS]
        at: i64 = (slot & PAGE_MASK) * WORDS_PER_ENTRY
        if page[at + 2] == 0:
            page[at] = first
            page[at + 1] = second
            self.size += 1
        page[at + 2] = offset + 1  # so that a slot of zeroes is an empty one
        self.latest_offset = offset

    def get(self, key: bytes) -> i64:
        """The last offset of the key, or -1."""
        first: i64 = hash(key)
        second: i64 = hash(key + _SECOND_HASH)
        slot = self._find(first, second)
        if slot < 0:
            return -1
        return self._pages[slot >> PAGE_BITS][(slot & PAGE_MASK) * WORDS_PER_ENTRY + 2] - 1
