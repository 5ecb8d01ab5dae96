"""The codecs of record batches: gzip, snappy in Java's framing, lz4 frames, zstd.

Contains compression that Apache Kafka's clients can read, and decompression into buffers whose size is
bounded before they are allocated.  Nothing here knows batches.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from types import ModuleType

import cramjam

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.faults import CorruptBatch
from barnabas.batch.frames import LZ4_RAW_BLOCK, lz4_extent, zstd_bound

inflater: ModuleType
try:
    # Two to three times as fast; installed by the extra `speed`.
    from isal import isal_zlib as inflater
except ImportError:
    inflater = zlib

Buffer = bytes | bytearray | memoryview
_INFLATE_ERRORS: tuple[type[Exception], ...] = (zlib.error, inflater.error)

# What one batch of a log may decompress to.  check.py sets a much lower limit for clients.
DECOMPRESSED_LIMIT = 1 << 30

_GZIP_HEADER = bytes.fromhex("1f8b08000000000000ff")  # as Java writes it: no time, no flags, unknown system
_GZIP_MEMBERS_MAX = 4096
_GZIP_PIECE = 64 * 1024
_RAW_DEFLATE = -15
_WITH_GZIP_HEADER = 31

_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER = _SNAPPY_MAGIC + bytes((0, 0, 0, 1, 0, 0, 0, 1))
_SNAPPY_BLOCK = 32 * 1024
_SNAPPY_GREATEST_RATIO = 22  # a copy of 64 bytes takes three
_BLOCK_SIZE = Struct(">i")

_LZ4_HEADER = bytes.fromhex("04224d18604082")  # independent blocks of 64 KiB, no checksums: Java's default
_LZ4_BLOCK = 64 * 1024
_LZ4_BLOCK_SIZE = Struct("<I")
_LZ4_END = bytes(4)


class Codec(IntEnum):
    """Compression codec of a batch; the number is the one in the batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def config_name(self) -> str:
        """The name in `compression.type` and in dump-log."""
        return self.name.lower()


# Lowest, highest and default level of `compression.<codec>.level` (KIP-390).
LEVELS = {Codec.GZIP: (1, 9, -1), Codec.LZ4: (1, 17, 9), Codec.ZSTD: (-131072, 22, 3)}


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress for a batch of format v2."""
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.SNAPPY:
        return _snappy(data)
    lowest, highest, default = LEVELS[codec]
    if level is None:
        level = default
    elif level != default and not lowest <= level <= highest:
        raise ValueError(f"{codec.config_name} has the levels {lowest} to {highest}, not {level}")
    if codec is Codec.GZIP:
        return _gzip(data, level)
    if codec is Codec.LZ4:
        return _lz4(data, level)
    return bytes(cramjam.zstd.compress(data, level))


def decompress(codec: Codec, data: Buffer, limit: int = DECOMPRESSED_LIMIT) -> bytes:
    """Decompress at most `limit` bytes, so that a bomb is harmless.  A longer result raises
    MESSAGE_TOO_LARGE."""
    if codec is Codec.NONE:
        return bytes(data)
    view = memoryview(data)
    if codec is Codec.GZIP:
        return _gunzip(view, limit)
    if codec is Codec.SNAPPY:
        return _unsnappy(view, limit)
    if codec is Codec.LZ4:
        end, most = lz4_extent(view)
        return _decompress_into(cramjam.lz4.decompress_into, view[:end], most, limit)
    return _decompress_into(cramjam.zstd.decompress_into, view, zstd_bound(view), limit)


def _gzip(data: Buffer, level: int) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, _RAW_DEFLATE)
    trailer = zlib.crc32(data).to_bytes(4, "little") + (len(data) & 0xFFFF_FFFF).to_bytes(4, "little")
    return b"".join((_GZIP_HEADER, packer.compress(data), packer.flush(), trailer))


def _snappy(data: Buffer) -> bytes:
    parts = [_SNAPPY_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _SNAPPY_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _SNAPPY_BLOCK]))
        parts.append(_BLOCK_SIZE.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _lz4(data: Buffer, level: int) -> bytes:
    """A frame with independent blocks: Java's reader rejects linked ones."""
    parts = [_LZ4_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK):
        piece = view[start : start + _LZ4_BLOCK]
        if level == LEVELS[Codec.LZ4][2]:
            block = bytes(cramjam.lz4.compress_block(piece, store_size=False))
        else:
            packed = cramjam.lz4.compress_block(
                piece, mode="high_compression", compression=level, store_size=False
            )
            block = bytes(packed)
        if len(block) < len(piece):
            parts.append(_LZ4_BLOCK_SIZE.pack(len(block)))
            parts.append(block)
        else:
            parts.append(_LZ4_BLOCK_SIZE.pack(len(piece) | LZ4_RAW_BLOCK))
            parts.append(bytes(piece))
    parts.append(_LZ4_END)
    return b"".join(parts)


def _too_large(limit: int) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"the batch decompresses to more than {limit} bytes")


def _gunzip(data: memoryview, limit: int) -> bytes:
    """All members, concatenated.  As in Java, trailing bytes that do not start another member are ignored."""
    parts: list[bytes] = []
    position = 0
    remaining = limit
    for _ in range(_GZIP_MEMBERS_MAX):
        unpacker = inflater.decompressobj(_WITH_GZIP_HEADER)
        while not unpacker.eof:
            # In pieces: zlib copies the bytes after a member, which must not be the whole remainder each
            # time.
            piece = unpacker.unconsumed_tail or data[position : position + _GZIP_PIECE]
            if not len(piece):
                raise CorruptBatch("the gzip data is cut short")
            if not unpacker.unconsumed_tail:
                position += len(piece)
            try:
                part = unpacker.decompress(piece, remaining + 1)
            except _INFLATE_ERRORS as error:
                raise CorruptBatch(f"the gzip data is malformed: {error}") from None
            remaining -= len(part)
            if remaining < 0:
                raise _too_large(limit)
            parts.append(part)
        position -= len(unpacker.unused_data)
        if bytes(data[position : position + 2]) != _GZIP_HEADER[:2]:
            return b"".join(parts)
    raise CorruptBatch(f"the gzip data has more than {_GZIP_MEMBERS_MAX} members")


def _unsnappy(data: memoryview, limit: int) -> bytes:
    """Java's framing, which begins with a magic; without it the data is one plain block, as some clients
    send."""
    if bytes(data[: len(_SNAPPY_MAGIC)]) != _SNAPPY_MAGIC:
        blocks = [(data, _snappy_size(data))]
    else:
        blocks = _snappy_blocks(data)
    total = sum(size for _, size in blocks)
    if total > limit:
        raise _too_large(limit)
    out = bytearray(total)
    target = memoryview(out)
    try:
        for block, size in blocks:
            cramjam.snappy.decompress_raw_into(block, target[:size])
            target = target[size:]
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"the snappy data is malformed: {error}") from None
    return bytes(out)


def _snappy_blocks(data: memoryview) -> list[tuple[memoryview, int]]:
    """Every block and its decompressed size.  A header may occur again where streams were concatenated."""
    blocks: list[tuple[memoryview, int]] = []
    position = 0
    while position < len(data):
        if bytes(data[position : position + len(_SNAPPY_MAGIC)]) == _SNAPPY_MAGIC:
            position += len(_SNAPPY_HEADER)
            continue
        if len(data) - position < _BLOCK_SIZE.size:
            raise CorruptBatch("the snappy data is cut short")
        (size,) = _BLOCK_SIZE.unpack_from(data, position)
        position += _BLOCK_SIZE.size
        if not 0 <= size <= len(data) - position:
            raise CorruptBatch(
                f"the snappy data has a block of {size} bytes, {len(data) - position} are left"
            )
        block = data[position : position + size]
        blocks.append((block, _snappy_size(block)))
        position += size
    return blocks


def _snappy_size(block: memoryview) -> int:
    """The decompressed size that a block claims; raises if no block of its size can reach it."""
    try:
        size = int(cramjam.snappy.decompress_raw_len(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"the snappy data is malformed: {error}") from None
    if size > len(block) * _SNAPPY_GREATEST_RATIO:
        raise CorruptBatch(f"the snappy data has a block of {len(block)} bytes that claims to hold {size}")
    return size


def _decompress_into(
    into: Callable[[memoryview, bytearray], int], data: memoryview, most: int, limit: int
) -> bytes:
    out = bytearray(min(most, limit))
    try:
        written = into(data, out)
    except cramjam.DecompressionError as error:
        # With a buffer for the maximum that the frames can hold, a failure means corruption, not lack of
        # space.
        if most > limit and "whole buffer" in str(error):
            raise _too_large(limit) from None
        raise CorruptBatch(f"the compressed data is malformed: {error}") from None
    return bytes(memoryview(out)[:written])
