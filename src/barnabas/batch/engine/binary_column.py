"""Keys or values side by side, as Arrow has binary columns: all bytes in a row, and where each one ends."""

from __future__ import annotations

from librt.strings import BytesWriter
from librt.vecs import vec
from mypy_extensions import i32, i64, u8

from barnabas.batch.engine.columns import ColumnVectors


class BinaryColumn:
    """`ends[i + 1]` is where row i ends in `data`; `valid` is a bit field of the rows that are not null."""

    def __init__(self, rows: i64) -> None:
        self.data = b""
        self.ends = vec[i32]([0] * (rows + 1))
        self.valid = b""
        self.nulls = 0


def binary_column(payload: bytes, vectors: ColumnVectors, keys: bool, first: i64, rows: i64) -> BinaryColumn:
    """The keys, or else the values, of the rows from `first` on."""
    starts = vectors.key_starts if keys else vectors.value_starts
    lengths = vectors.key_lengths if keys else vectors.value_lengths
    column = BinaryColumn(rows)
    ends = column.ends
    out = BytesWriter()
    bits = BytesWriter()
    total: i64 = 0
    nulls: i64 = 0
    byte: i64 = 0
    row: i64 = 0
    while row < rows:
        length: i64 = i64(lengths[first + row])
        if length >= 0:
            start: i64 = i64(starts[first + row])
            if length > 0:
                out.write(payload[start : start + length])
                total += length
            byte |= 1 << (row & 7)
        else:
            nulls += 1
        ends[row + 1] = i32(total)
        if row & 7 == 7:
            bits.append(u8(byte))
            byte = 0
        row += 1
    if rows & 7 != 0:
        bits.append(u8(byte))
    column.data = out.getvalue()
    column.valid = bits.getvalue()
    column.nulls = int(nulls)
    return column
