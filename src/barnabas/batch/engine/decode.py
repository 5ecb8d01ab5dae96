"""The records of a payload as Python values, for readers that need objects."""

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
from barnabas.batch.engine.varints import add_wrapping, read_varint, read_varlong

Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def decode_records(
    data: bytes, count: i64, base_offset: i64, base_timestamp: i64, log_append_time: bool
) -> tuple[int, int, list[Row]]:
    """A fault, the index of its record, and a row for each record before it."""
    rows: list[Row] = []
    end: i64 = len(data)
    position: i64 = 0
    index: i64 = 0
    while index < count:
        length, body = read_varint(data, position, end)
        if body < 0:
            return BAD_VARINT, index, rows
        if length < 1 or length > end - body:
            return BAD_LENGTH, index, rows
        stop: i64 = body + length
        delta, position = read_varlong(data, body + 1, stop)
        if position < 0:
            return BAD_VARINT, index, rows
        timestamp: i64 = base_timestamp if log_append_time else add_wrapping(base_timestamp, delta)
        offset, position = read_varint(data, position, stop)
        if position < 0:
            return BAD_VARINT, index, rows
        key_size, key_start = read_varint(data, position, stop)
        if key_start < 0:
            return BAD_VARINT, index, rows
        if key_size > stop - key_start:
            return BAD_KEY, index, rows
        key_end: i64 = key_start + key_size if key_size > 0 else key_start
        value_size, value_start = read_varint(data, key_end, stop)
        if value_start < 0:
            return BAD_VARINT, index, rows
        if value_size > stop - value_start:
            return BAD_VALUE, index, rows
        value_end: i64 = value_start + value_size if value_size > 0 else value_start
        headers, position = decode_headers(data, value_end, stop)
        if position < 0:
            return BAD_HEADERS, index, rows
        if position != stop:
            return WRONG_LENGTH, index, rows
        rows.append(
            (
                add_wrapping(base_offset, offset),
                timestamp,
                None if key_size < 0 else data[key_start:key_end],
                None if value_size < 0 else data[value_start:value_end],
                headers,
            )
        )
        index += 1
    if position != end:
        return TRAILING_BYTES, count - 1, rows
    return NO_FAULT, 0, rows


def decode_headers(data: bytes, position: i64, stop: i64) -> tuple[tuple[tuple[str, bytes | None], ...], i64]:
    """The headers whose count is at `position`, and the position after them (-1: they are malformed)."""
    count, position = read_varint(data, position, stop)
    if position < 0 or count < 0 or count > stop - position:
        return (), -1
    if count == 0:
        return (), position
    headers: list[tuple[str, bytes | None]] = []
    done: i64 = 0
    while done < count:
        key_size, key_start = read_varint(data, position, stop)
        if key_start < 0 or key_size < 0 or key_size > stop - key_start:
            return (), -1
        value_size, value_start = read_varint(data, key_start + key_size, stop)
        if value_start < 0 or value_size > stop - value_start:
            return (), -1
        key = data[key_start : key_start + key_size].decode("utf-8", "replace")
        if value_size < 0:
            headers.append((key, None))
            position = value_start
        else:
            position = value_start + value_size
            headers.append((key, data[value_start:position]))
        done += 1
    return tuple(headers), position
