"""The format of producer snapshot files, `NNN.snapshot`.

version 1 (2 bytes), CRC-32C of all that follows it (4), number of entries (4); 46 bytes an entry:
producer id (8), epoch (2), last sequence (4), last offset (8), offset delta of the last batch (4),
last timestamp (8), coordinator epoch (4), first offset of the current transaction or -1 (8)
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from fastcrc import crc32

VERSION = 1
HEAD = Struct(">hI")
COUNT = Struct(">i")
ENTRY = Struct(">qhiqiqiq")
FIRST_ENTRY = HEAD.size + COUNT.size
# A bound against hostile files; no partition has this many producers.
MAX_SNAPSHOT_BYTES = FIRST_ENTRY + ENTRY.size * 4_000_000

# Java's HashMap doubles its table when it is fuller than this.
_FIRST_TABLE = 16
_FULLNESS = 0.75


class DamagedSnapshot(Exception):
    """The file violates its format; an older snapshot or the log itself is used instead."""


class SnapshotEntry(NamedTuple):
    """The snapshot of one producer's state."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_transaction_first_offset: int


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    rows = in_java_order(list(entries))
    body = COUNT.pack(len(rows)) + b"".join(ENTRY.pack(*row) for row in rows)
    return HEAD.pack(VERSION, crc32.iscsi(body)) + body


def decode_snapshot(data: bytes) -> list[SnapshotEntry]:
    if len(data) < FIRST_ENTRY:
        raise DamagedSnapshot(f"it has {len(data)} bytes, at least {FIRST_ENTRY} are needed")
    version, crc = HEAD.unpack_from(data)
    if version != VERSION:
        raise DamagedSnapshot(f"it has the unknown version {version}")
    (count,) = COUNT.unpack_from(data, HEAD.size)
    if count < 0 or FIRST_ENTRY + count * ENTRY.size != len(data):
        raise DamagedSnapshot(f"it announces {count} producers in {len(data)} bytes")
    if crc32.iscsi(memoryview(data)[HEAD.size :]) != crc:
        raise DamagedSnapshot("its CRC is wrong")
    return [SnapshotEntry(*row) for row in ENTRY.iter_unpack(memoryview(data)[FIRST_ENTRY:])]


def in_java_order(rows: list[SnapshotEntry]) -> list[SnapshotEntry]:
    """Sort as Java's HashMap<Long, ...> iterates, so that files are byte-identical."""
    table = _FIRST_TABLE
    while len(rows) > table * _FULLNESS:
        table *= 2

    def bucket(row: SnapshotEntry) -> int:
        folded = (row.producer_id ^ (row.producer_id >> 32)) & 0xFFFFFFFF
        return (folded ^ (folded >> 16)) & (table - 1)

    return sorted(rows, key=bucket)
