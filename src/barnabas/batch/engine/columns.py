"""The records of a payload as columns: offsets, timestamps, and the positions of keys, values and headers.

Every column is a vector of native integers, of 64 bits for offsets and timestamps, of 32 for positions and
lengths.  A length of -1 means null.
"""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i32, i64

from barnabas.batch.engine.faults import (
    BAD_HEADERS,
    BAD_KEY,
    BAD_LENGTH,
    BAD_VALUE,
    BAD_VARINT,
    NO_FAULT,
    TRAILING_BYTES,
    WRONG_LENGTH,
)
from barnabas.batch.engine.varints import add_wrapping, read_varint, read_varlong
from barnabas.batch.engine.walk import skip_headers


class ColumnVectors:
    """The columns of a known number of rows, filled batch by batch."""

    def __init__(self, rows: i64) -> None:
        self.offsets = vec[i64]([0] * rows)
        self.timestamps = vec[i64]([0] * rows)
        self.key_starts = vec[i32]([0] * rows)
        self.key_lengths = vec[i32]([0] * rows)
        self.value_starts = vec[i32]([0] * rows)
        self.value_lengths = vec[i32]([0] * rows)
        self.header_starts = vec[i32]([0] * rows)


def decode_columns(
    data: bytes,
    start: i64,
    end: i64,
    shift: i64,
    row: i64,
    count: i64,
    base_offset: i64,
    base_timestamp: i64,
    log_append_time: bool,
    columns: ColumnVectors,
) -> tuple[int, int]:
    """Fill the rows from `row` on with the `count` records from `start` to `end`; adds `shift` to positions.

    Returns a fault and the index of its record.  After a fault the columns are not usable.
    """
    offsets = columns.offsets
    timestamps = columns.timestamps
    key_starts = columns.key_starts
    key_lengths = columns.key_lengths
    value_starts = columns.value_starts
    value_lengths = columns.value_lengths
    header_starts = columns.header_starts
    position: i64 = start
    index: i64 = 0
    while index < count:
        length, position = read_varint(data, position, end)
        if position < 0:
            return BAD_VARINT, index
        if length < 1 or length > end - position:
            return BAD_LENGTH, index
        stop: i64 = position + length
        delta, position = read_varlong(data, position + 1, stop)
        if position < 0:
            return BAD_VARINT, index
        timestamps[row] = base_timestamp if log_append_time else add_wrapping(base_timestamp, delta)
        offset, position = read_varint(data, position, stop)
        if position < 0:
            return BAD_VARINT, index
        offsets[row] = add_wrapping(base_offset, offset)
        size, position = read_varint(data, position, stop)
        if position < 0:
            return BAD_VARINT, index
        if size > stop - position:
            return BAD_KEY, index
        key_starts[row] = i32(shift + position)
        if size < 0:
            key_lengths[row] = -1
        else:
            key_lengths[row] = i32(size)
            position += size
        size, position = read_varint(data, position, stop)
        if position < 0:
            return BAD_VARINT, index
        if size > stop - position:
            return BAD_VALUE, index
        value_starts[row] = i32(shift + position)
        if size < 0:
            value_lengths[row] = -1
        else:
            value_lengths[row] = i32(size)
            position += size
        header_starts[row] = i32(shift + position)
        if position < stop and data[position] == 0:
            position += 1
        else:
            position = skip_headers(data, position, stop)
            if position < 0:
                return BAD_HEADERS, index
        if position != stop:
            return WRONG_LENGTH, index
        index += 1
        row += 1
    if position != end:
        return TRAILING_BYTES, count - 1
    return NO_FAULT, 0
