"""Batches and records that several tests use."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from hypothesis import strategies as st

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.batch.view import CRC_POSITION, HEADER_SIZE, batch_crc

VECTORS = Path(__file__).parents[1] / "data" / "vectors"
START = 1700000000000

# The records of the recorded batches.
RECORDED = [
    Record(100, START, b"k1", b"v1"),
    Record(101, START + 5, None, b"no key"),
    Record(102, START + 3, b"tombstone", None),
    Record(
        103,
        START + 10,
        b"k2",
        b"value with headers, value with headers, value with headers",
        (("h1", b"x"), ("h2", None), ("", b"")),
    ),
]


def vectors(name: str) -> list[dict[str, object]]:
    loaded: list[dict[str, object]] = json.loads((VECTORS / f"{name}.json").read_text("utf-8"))
    return loaded


def numbered(count: int, **fields: object) -> list[Record]:
    """Records 0, 1, 2 ... with keys and values."""
    return [
        Record(index, START + index, f"key-{index}".encode(), b"v" * (index % 50)) for index in range(count)
    ]


def sealed(batch: bytes | bytearray) -> bytearray:
    """The batch with its length and its CRC corrected."""
    out = bytearray(batch)
    struct.pack_into(">i", out, 8, len(out) - 12)
    out[CRC_POSITION : CRC_POSITION + 4] = batch_crc(out, 0, len(out)).to_bytes(4, "big")
    return out


def with_payload(payload: bytes, count: int) -> bytearray:
    """An uncompressed batch around bytes that need not be valid records."""
    batch = build(numbered(1))[:HEADER_SIZE]
    struct.pack_into(">i", batch, 23, count - 1)
    struct.pack_into(">i", batch, 57, count)
    return sealed(batch + payload)


content = st.none() | st.binary(max_size=60)
headers = st.lists(st.tuples(st.text(max_size=12), content), max_size=3).map(tuple)
timestamps = st.integers(START - 10**9, START + 10**9) | st.just(-1) | st.integers(0, 2**62)


@st.composite
def record_lists(draw: st.DrawFn, *, gaps: bool = True) -> list[Record]:
    """Records with growing offsets."""
    count = draw(st.integers(1, 20))
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(count):
        records.append(Record(offset, draw(timestamps), draw(content), draw(content), draw(headers)))
        offset += draw(st.integers(1, 100)) if gaps else 1
    return records
