"""Encoding of records: the payload of a batch before compression."""

from __future__ import annotations

from librt.strings import BytesWriter
from mypy_extensions import i64

from barnabas.batch.engine.varints import size_of_varint, subtract_wrapping, write_varint

Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def encode_records(rows: list[Row], base_offset: i64, base_timestamp: i64) -> tuple[bytes, int, int]:
    """The payload, the max timestamp, and the first row whose offset does not grow (-1: none)."""
    out = BytesWriter()
    highest: i64 = -1
    previous: i64 = -1
    for index, row in enumerate(rows):
        offset: i64 = subtract_wrapping(row[0], base_offset)
        if offset <= previous:
            return b"", 0, index
        previous = offset
        timestamp: i64 = row[1]
        if timestamp > highest:
            highest = timestamp
        encode_record(out, offset, subtract_wrapping(timestamp, base_timestamp), row[2], row[3], row[4])
    return out.getvalue(), highest, -1


def encode_record(
    out: BytesWriter,
    offset_delta: i64,
    timestamp_delta: i64,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...],
) -> None:
    """One record, preceded by its length."""
    count: i64 = len(headers)
    size: i64 = 1 + size_of_varint(timestamp_delta) + size_of_varint(offset_delta) + size_of_varint(count)
    size += size_of_bytes(key) + size_of_bytes(value)
    encoded = b""
    if count > 0:
        encoded = encode_headers(headers)
        size += len(encoded)
    write_varint(out, size)
    out.append(0)
    write_varint(out, timestamp_delta)
    write_varint(out, offset_delta)
    write_bytes(out, key)
    write_bytes(out, value)
    write_varint(out, count)
    if count > 0:
        out.write(encoded)


def encode_headers(headers: tuple[tuple[str, bytes | None], ...]) -> bytes:
    out = BytesWriter()
    for name, content in headers:
        write_bytes(out, name.encode("utf-8"))
        write_bytes(out, content)
    return out.getvalue()


def size_of_bytes(content: bytes | None) -> i64:
    """How many bytes write_bytes needs."""
    if content is None:
        return 1
    size: i64 = len(content)
    return size_of_varint(size) + size


def write_bytes(out: BytesWriter, content: bytes | None) -> None:
    """A length and that many bytes; only -1 for None."""
    if content is None:
        out.append(1)
        return
    write_varint(out, len(content))
    out.write(content)
