"""Damage to the bytes of a file: truncated, flipped, zeroed, overwritten, duplicated, swapped, deleted.

Contains drawing a file of a data folder and damaging it.  The expected result belongs in checker.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from barnabas.runtime.random import Random
from barnabas.storage.log import log_files
from barnabas.storage.log.names import TopicPartition

# The kinds of file in a log's folder that have a suffix; all others have fixed names.
SUFFIXES = (*log_files.SEGMENT_FILES, log_files.SNAPSHOT)
# Files marked for deletion are not read any more.
NOT_READ = (log_files.DELETED,)

Item = TypeVar("Item")

MAX_BLOCK_BYTES = 600
MAX_FLIPPED_BITS = 6
# The largest block at the end of a file when only its last batch is torn.
TAIL_BYTES = 120
DRAWS = 20
# How much likelier than others these kinds are.
WEIGHTS = {log_files.LOG: 8, log_files.OFFSET_INDEX: 2, log_files.TIME_INDEX: 2, log_files.SNAPSHOT: 2}


@dataclass(frozen=True, slots=True)
class Wound:
    """The damage to one file; `after` is None if it was deleted."""

    path: str
    kind: str
    action: str
    before: bytes
    after: bytes | None

    @property
    def first(self) -> int:
        """The first changed byte."""
        after = self.after or b""
        pairs = enumerate(zip(self.before, after, strict=False))
        return next((at for at, (old, new) in pairs if old != new), min(len(self.before), len(after)))

    def is_in(self, partition: TopicPartition) -> bool:
        return f"/{partition}/" in self.path

    def __str__(self) -> str:
        size = "deleted" if self.after is None else f"{len(self.after)} bytes"
        return f"{self.path} ({len(self.before)} bytes): {self.action} at {self.first}, now {size}"


def kind_of(path: str) -> str:
    """`.log` and other suffixes, or the file's own name."""
    name = path.rpartition("/")[2]
    if log_files.offset_in(name) is not None:
        return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), name)
    return name


def draw_wound(random: Random, files: Mapping[str, bytes]) -> Wound:
    """One file, drawn by its kind, and a damage that changes it."""
    by_kind: dict[str, list[str]] = {}
    for path in files:
        if not path.endswith(NOT_READ):
            by_kind.setdefault(kind_of(path), []).append(path)
    kind = _choice(random, [kind for kind in sorted(by_kind) for _ in range(WEIGHTS.get(kind, 1))])
    path = _choice(random, sorted(by_kind[kind]))
    before = files[path]
    for _ in range(DRAWS):
        action = _choice(random, ACTIONS)
        after = action(random, before)
        if after != before:
            return Wound(path, kind, action.__name__, before, after)
    return Wound(path, kind, garbage.__name__, before, before + b"\xff")


def _choice(random: Random, items: list[Item]) -> Item:
    return items[random.integer(0, len(items) - 1)]


def _block(random: Random, data: bytes) -> tuple[int, int]:
    """Start and end of some part of the file."""
    start = random.integer(0, max(0, len(data) - 1))
    return start, min(len(data), start + random.integer(1, MAX_BLOCK_BYTES))


def cut(random: Random, data: bytes) -> bytes:
    return data[: random.integer(0, len(data))]


def cut_the_end(random: Random, data: bytes) -> bytes:
    return data[: max(0, len(data) - random.integer(1, TAIL_BYTES))]


def empty(random: Random, data: bytes) -> bytes:
    return b""


def flip_a_bit(random: Random, data: bytes) -> bytes:
    return flip(random, data, 1)


def flip_bits(random: Random, data: bytes) -> bytes:
    return flip(random, data, random.integer(2, MAX_FLIPPED_BITS))


def flip(random: Random, data: bytes, bits: int) -> bytes:
    flipped = bytearray(data)
    for _ in range(bits if data else 0):
        flipped[random.integer(0, len(data) - 1)] ^= 1 << random.integer(0, 7)
    return bytes(flipped)


def zero_a_page(random: Random, data: bytes) -> bytes:
    start, end = _block(random, data)
    return data[:start] + bytes(end - start) + data[end:]


def overwrite(random: Random, data: bytes) -> bytes:
    start, end = _block(random, data)
    return data[:start] + random.bytes(end - start) + data[end:]


def garbage(random: Random, data: bytes) -> bytes:
    """At the end, where a write was in progress."""
    return data + random.bytes(random.integer(1, MAX_BLOCK_BYTES))


def zeroes(random: Random, data: bytes) -> bytes:
    """At the end: the length reached the disk before the bytes did."""
    return data + bytes(random.integer(1, MAX_BLOCK_BYTES))


def double(random: Random, data: bytes) -> bytes:
    start, end = _block(random, data)
    return data[:end] + data[start:end] + data[end:]


def swap(random: Random, data: bytes) -> bytes:
    """Two adjacent blocks are swapped."""
    start, end = _block(random, data)
    middle = random.integer(start, end)
    return data[:start] + data[middle:end] + data[start:middle] + data[end:]


def delete(random: Random, data: bytes) -> bytes | None:
    return None


ACTIONS: list[Callable[[Random, bytes], bytes | None]] = [
    cut,
    cut_the_end,
    empty,
    flip_a_bit,
    flip_a_bit,
    flip_bits,
    zero_a_page,
    overwrite,
    garbage,
    zeroes,
    double,
    swap,
    delete,
]
