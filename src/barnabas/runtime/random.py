"""The random interface.  All randomness comes from here, so that a seed determines a whole simulation."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from barnabas.base.ids import METADATA_TOPIC_ID, ZERO_UUID, Uuid


class Random(Protocol):
    """The source of randomness for the rest of the code."""

    def integer(self, low: int, high: int) -> int:
        """From low to high, both included."""
        ...

    def fraction(self) -> float:
        """From 0 up to, but not including, 1."""
        ...

    def bytes(self, count: int) -> bytes: ...


class SystemRandom:
    """The operating system's source, suitable for ids and salts."""

    __slots__ = ("_source",)

    def __init__(self) -> None:
        self._source = random.SystemRandom()

    def integer(self, low: int, high: int) -> int:
        return self._source.randint(low, high)

    def fraction(self) -> float:
        return self._source.random()

    def bytes(self, count: int) -> bytes:
        return self._source.randbytes(count)


class SeededRandom:
    """The same seed gives the same numbers in every process."""

    __slots__ = ("_bits", "_source", "fraction", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._source = random.Random(seed)
        # Not a method: a simulation draws several for every event.
        self.fraction: Callable[[], float] = self._source.random
        self._bits: Callable[[int], int] = self._source.getrandbits

    def integer(self, low: int, high: int) -> int:
        """As `randint`, without the calls between."""
        count = high - low + 1
        if count <= 0:
            raise ValueError(f"nothing lies between {low} and {high}")
        length = count.bit_length()
        drawn = self._bits(length)
        while drawn >= count:
            drawn = self._bits(length)
        return low + drawn

    def bytes(self, count: int) -> bytes:
        return self._source.randbytes(count)


def random_uuid(source: Random) -> Uuid:
    """A new id: never a reserved one, and its text never starts with a dash (it would look like a flag)."""
    while True:
        raw = bytearray(source.bytes(16))
        raw[6] = (raw[6] & 0x0F) | 0x40  # version 4, as Java's UUID.randomUUID writes it
        raw[8] = (raw[8] & 0x3F) | 0x80
        drawn = Uuid(raw)
        if drawn not in (ZERO_UUID, METADATA_TOPIC_ID) and not str(drawn).startswith("-"):
            return drawn
