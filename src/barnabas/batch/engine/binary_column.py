"""Keys or values in a form from which Arrow builds a binary column, in one step and in its own memory.

Arrow's binary columns need contiguous bytes, but in a payload there are always other fields in between.  So
the payload is divided into slots, one for each row and one for the bytes after it, and the rows are every
second slot.
"""

from __future__ import annotations

from librt.strings import BytesWriter
from librt.vecs import vec
from mypy_extensions import i32, i64, u8

from barnabas.batch.engine.columns import ColumnVectors


class BinaryColumn:
    """Slot s of the payload extends from `bounds[s]` to `bounds[s + 1]`; row i is slot `slots[i]`.

    `valid` is a bit field of the rows that are not null.
    """

    def __init__(self, rows: i64) -> None:
        self.bounds = vec[i32]([0] * (2 * rows))
        self.slots = vec[i32]([0] * rows)
        self.valid = b""
        self.nulls = 0


def binary_column(vectors: ColumnVectors, keys: bool, first: i64, rows: i64) -> BinaryColumn:
    """The keys, or else the values, of the rows from `first` on."""
    starts = vectors.key_starts if keys else vectors.value_starts
    lengths = vectors.key_lengths if keys else vectors.value_lengths
    column = BinaryColumn(rows)
    bounds = column.bounds
    slots = column.slots
    bits = BytesWriter()
    nulls: i64 = 0
    byte: i64 = 0
    row: i64 = 0
    while row < rows:
        start: i32 = starts[first + row]
        length: i32 = lengths[first + row]
        slot: i64 = 2 * row
        slots[row] = i32(slot)
        bounds[slot] = start
        if length >= 0:
            bounds[slot + 1] = start + length
            byte |= 1 << (row & 7)
        else:
            bounds[slot + 1] = start
            nulls += 1
        if row & 7 == 7:
            bits.append(u8(byte))
            byte = 0
        row += 1
    if rows & 7 != 0:
        bits.append(u8(byte))
    column.valid = bits.getvalue()
    column.nulls = int(nulls)
    return column
