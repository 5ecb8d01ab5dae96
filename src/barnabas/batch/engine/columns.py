"""The records of a payload as columns: offsets, times, and where keys, values and headers lie.

Every column is a run of little-endian integers, eight bytes each for offsets and times, four for positions
and lengths.  A length of -1 stands for null.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from barnabas.batch.engine.faults import (
    BAD_HEADERS,
    BAD_KEY,
    BAD_LENGTH,
    BAD_VALUE,
    BAD_VARINT,
    NO_FAULT,
    RECORDS_LEFT,
    WRONG_LENGTH,
)
from barnabas.batch.engine.varints import add_wrapping, read_varint, read_varlong
from barnabas.batch.engine.walk import skip_headers


class ColumnWriters:
    """The columns while they grow, batch by batch."""

    def __init__(self) -> None:
        self.offsets: Final = BytesWriter()
        self.timestamps: Final = BytesWriter()
        self.key_starts: Final = BytesWriter()
        self.key_lengths: Final = BytesWriter()
        self.value_starts: Final = BytesWriter()
        self.value_lengths: Final = BytesWriter()
        self.header_starts: Final = BytesWriter()


def decode_columns(
    data: bytes,
    shift: i64,
    count: i64,
    base_offset: i64,
    base_timestamp: i64,
    log_append_time: bool,
    columns: ColumnWriters,
) -> tuple[int, int]:
    """Append `count` records that fill `data` exactly; positions are given with `shift` added.

    Returns a fault and the index of the record that has it.  After a fault the columns are of no use.
    """
    offsets = columns.offsets
    timestamps = columns.timestamps
    key_starts = columns.key_starts
    key_lengths = columns.key_lengths
    value_starts = columns.value_starts
    value_lengths = columns.value_lengths
    header_starts = columns.header_starts
    end: i64 = len(data)
    position: i64 = 0
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
        write_i64_le(timestamps, base_timestamp if log_append_time else add_wrapping(base_timestamp, delta))
        offset, position = read_varint(data, position, stop)
        if position < 0:
            return BAD_VARINT, index
        write_i64_le(offsets, add_wrapping(base_offset, offset))
        size, position = read_varint(data, position, stop)
        if position < 0:
            return BAD_VARINT, index
        if size > stop - position:
            return BAD_KEY, index
        write_i32_le(key_starts, i32(shift + position))
        if size < 0:
            write_i32_le(key_lengths, -1)
        else:
            write_i32_le(key_lengths, i32(size))
            position += size
        size, position = read_varint(data, position, stop)
        if position < 0:
            return BAD_VARINT, index
        if size > stop - position:
            return BAD_VALUE, index
        write_i32_le(value_starts, i32(shift + position))
        if size < 0:
            write_i32_le(value_lengths, -1)
        else:
            write_i32_le(value_lengths, i32(size))
            position += size
        write_i32_le(header_starts, i32(shift + position))
        if position < stop and data[position] == 0:
            position += 1
        else:
            position = skip_headers(data, position, stop)
            if position < 0:
                return BAD_HEADERS, index
        if position != stop:
            return WRONG_LENGTH, index
        index += 1
    if position != end:
        return RECORDS_LEFT, count - 1
    return NO_FAULT, 0
