"""Validates the records of a batch and collects what a broker needs to know about them.

The broker walks each batch that a client sends: this is the hottest loop.
"""

from __future__ import annotations

from mypy_extensions import i64

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
from barnabas.batch.engine.varints import read_varint, read_varlong

# The result of walk(): fault, index of its record, number of records without a key, whether the offset deltas
# are 0, 1, 2 ..., and the first, the smallest and the largest timestamp delta.
Walk = tuple[int, int, int, bool, int, int, int]


def walk(data: bytes, count: i64, start: i64 = 0) -> Walk:
    """Check `count` records that must fill `data` exactly from `start` on."""
    end: i64 = len(data)
    position: i64 = start
    index: i64 = 0
    keyless: i64 = 0
    in_order = True
    first: i64 = 0
    low: i64 = 0
    high: i64 = 0
    while index < count:
        length, body = read_varint(data, position, end)
        if body < 0:
            return BAD_VARINT, index, keyless, in_order, first, low, high
        if length < 1 or length > end - body:
            return BAD_LENGTH, index, keyless, in_order, first, low, high
        stop: i64 = body + length
        delta, position = read_varlong(data, body + 1, stop)
        if position < 0:
            return BAD_VARINT, index, keyless, in_order, first, low, high
        if index == 0:
            first = low = high = delta
        elif delta > high:
            high = delta
        elif delta < low:
            low = delta
        offset, position = read_varint(data, position, stop)
        if position < 0:
            return BAD_VARINT, index, keyless, in_order, first, low, high
        if offset != index:
            in_order = False
        size, position = read_varint(data, position, stop)
        if position < 0:
            return BAD_VARINT, index, keyless, in_order, first, low, high
        if size > stop - position:
            return BAD_KEY, index, keyless, in_order, first, low, high
        if size < 0:
            keyless += 1
        else:
            position += size
        size, position = read_varint(data, position, stop)
        if position < 0:
            return BAD_VARINT, index, keyless, in_order, first, low, high
        if size > stop - position:
            return BAD_VALUE, index, keyless, in_order, first, low, high
        if size > 0:
            position += size
        if position < stop and data[position] == 0:
            position += 1
        else:
            position = skip_headers(data, position, stop)
            if position < 0:
                return BAD_HEADERS, index, keyless, in_order, first, low, high
        if position != stop:
            return WRONG_LENGTH, index, keyless, in_order, first, low, high
        index += 1
    if position != end:
        return TRAILING_BYTES, count - 1, keyless, in_order, first, low, high
    return NO_FAULT, 0, keyless, in_order, first, low, high


def skip_headers(data: bytes, position: i64, stop: i64) -> i64:
    """The position after the headers whose count is at `position`; -1 if they are malformed."""
    count, position = read_varint(data, position, stop)
    # A header has at least two bytes, so a count larger than the remaining bytes allow is rejected up front.
    if position < 0 or count < 0 or count > stop - position:
        return -1
    while count > 0:
        size, position = read_varint(data, position, stop)
        if position < 0 or size < 0 or size > stop - position:
            return -1
        size, position = read_varint(data, position + size, stop)
        if position < 0 or size > stop - position:
            return -1
        if size > 0:
            position += size
        count -= 1
    return position
