"""Records into bytes: the payload of a batch before compression."""

from __future__ import annotations

from librt.strings import BytesWriter
from mypy_extensions import i64

from barnabas.batch.engine.varints import size_of_varint, write_varint


def encode_record(
    out: BytesWriter,
    offset_delta: i64,
    timestamp_delta: i64,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...],
) -> None:
    """One record, its length first."""
    size: i64 = 1 + size_of_varint(timestamp_delta) + size_of_varint(offset_delta)
    size += size_of_varint(len(headers))
    if key is None:
        size += 1
    else:
        size += size_of_varint(len(key)) + len(key)
    if value is None:
        size += 1
    else:
        size += size_of_varint(len(value)) + len(value)
    encoded = BytesWriter()
    for name, content in headers:
        write_bytes(encoded, name.encode("utf-8"))
        write_bytes(encoded, content)
    size += len(encoded)
    write_varint(out, size)
    out.append(0)
    write_varint(out, timestamp_delta)
    write_varint(out, offset_delta)
    write_bytes(out, key)
    write_bytes(out, value)
    write_varint(out, len(headers))
    out.write(encoded.getvalue())


def write_bytes(out: BytesWriter, content: bytes | None) -> None:
    """A length and as many bytes; -1 alone for None."""
    if content is None:
        out.append(1)
        return
    write_varint(out, len(content))
    out.write(content)
