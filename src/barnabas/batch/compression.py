"""The codecs of record batches: gzip, snappy in Java's framing, lz4 frames, zstd.

What lives here: compressing as Apache Kafka's clients can read it, and decompressing into a buffer whose size is
bounded before it is allocated.  What may not: batches.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from struct import Struct

import cramjam

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.faults import CorruptBatch

Buffer = bytes | bytearray | memoryview

# What one batch may grow to when it is decompressed.  The broker checks a client's batch with a lower one.
DECOMPRESSED_LIMIT = 1 << 30
_FIRST_GUESS = 64 * 1024
_GROWTH = 4

_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER = _SNAPPY_MAGIC + bytes((0, 0, 0, 1, 0, 0, 0, 1))
_SNAPPY_BLOCK = 32 * 1024
_SIZE = Struct(">i")


class Codec(IntEnum):
    """How the records of a batch are compressed; the number stands in the batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def config_name(self) -> str:
        """The word of `compression.type` and of dump-log."""
        return self.name.lower()


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress for a batch of format v2."""
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        return _gzip(data, -1 if level is None else level)
    if codec is Codec.SNAPPY:
        return _snappy(data)
    if codec is Codec.LZ4:
        return _lz4(data, level)
    return bytes(cramjam.zstd.compress(data, 3 if level is None else level))


def decompress(codec: Codec, data: Buffer, limit: int = DECOMPRESSED_LIMIT) -> bytes:
    """Decompress at most `limit` bytes; more raise MESSAGE_TOO_LARGE, so that a bomb costs `limit` at most."""
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        return _gunzip(data, limit)
    if codec is Codec.SNAPPY:
        return _unsnappy(bytes(data), limit)
    return _cramjam_decompress(cramjam.lz4 if codec is Codec.LZ4 else cramjam.zstd, data, limit)


def _gzip(data: Buffer, level: int) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def _snappy(data: Buffer) -> bytes:
    parts = [_SNAPPY_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _SNAPPY_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _SNAPPY_BLOCK]))
        parts.append(_SIZE.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _lz4(data: Buffer, level: int | None) -> bytes:
    # Java's reader refuses linked blocks.
    packer = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    packer.compress(data)
    return bytes(packer.finish())


def _too_large(limit: int) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"the batch decompresses to more than {limit} bytes")


def _gunzip(data: Buffer, limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit
    rest: Buffer = data
    while rest:
        unpacker = zlib.decompressobj(31)
        try:
            part = unpacker.decompress(rest, left + 1)
        except zlib.error as error:
            raise CorruptBatch(f"the gzip data is malformed: {error}") from None
        left -= len(part)
        if left < 0:
            raise _too_large(limit)
        if not unpacker.eof:
            raise CorruptBatch("the gzip data is cut short")
        parts.append(part)
        rest = unpacker.unused_data
    return b"".join(parts)


def _unsnappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(_SNAPPY_MAGIC):
        return _unsnappy_block(data, limit)
    parts: list[bytes] = []
    position = len(_SNAPPY_HEADER)
    left = limit
    while position < len(data):
        if len(data) - position < 4:
            raise CorruptBatch("the snappy data is cut short")
        (size,) = _SIZE.unpack_from(data, position)
        position += 4
        if not 0 <= size <= len(data) - position:
            raise CorruptBatch(f"the snappy data has a block of {size} bytes, more than are left")
        part = _unsnappy_block(data[position : position + size], left)
        left -= len(part)
        parts.append(part)
        position += size
    return b"".join(parts)


def _unsnappy_block(block: bytes, limit: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > limit:
            raise _too_large(limit)
        out = bytearray(size)
        cramjam.snappy.decompress_raw_into(block, out)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"the snappy data is malformed: {error}") from None
    return bytes(out)


def _cramjam_decompress(module: object, data: Buffer, limit: int) -> bytes:
    size = min(limit, max(_FIRST_GUESS, _GROWTH * len(data)))
    while True:
        out = bytearray(size)
        try:
            written = module.decompress_into(data, out)  # type: ignore[attr-defined]
        except cramjam.DecompressionError as error:
            if "failed to write whole buffer" not in str(error):
                raise CorruptBatch(f"the compressed data is malformed: {error}") from None
            if size >= limit:
                raise _too_large(limit) from None
            size = min(limit, size * _GROWTH)
            continue
        return bytes(memoryview(out)[:written])
