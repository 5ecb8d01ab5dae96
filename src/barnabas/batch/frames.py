"""The frames of lz4 and zstd: an upper bound of their decompressed size.

Walks frame and block headers, so that a buffer is sized before anything is decompressed, and so that lz4
frames which Apache Kafka rejects are rejected here too.  Decompression belongs in compression.py.
"""

from __future__ import annotations

from struct import Struct

from barnabas.batch.faults import CorruptBatch

_U32 = Struct("<I")

LZ4_MAGIC = 0x184D2204
LZ4_RAW_BLOCK = 0x8000_0000
LZ4_BLOCK_SIZES = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
LZ4_GREATEST_RATIO = 255

ZSTD_MAGIC = 0xFD2FB528
ZSTD_SKIPPABLE = 0x184D2A50
ZSTD_GREATEST_BLOCK = 128 * 1024
_ZSTD_DICTIONARY_BYTES = (0, 1, 2, 4)
_ZSTD_CONTENT_BYTES = (0, 2, 4, 8)


def _word(data: memoryview, position: int) -> int:
    if position + 4 > len(data):
        raise CorruptBatch("the compressed data is cut short")
    (word,) = _U32.unpack_from(data, position)
    return int(word)


def lz4_extent(data: memoryview) -> tuple[int, int]:
    """Where the frame ends, and the maximum number of bytes it can hold.

    As in Apache Kafka, bytes after the end of the frame are ignored, and blocks must be independent.
    """
    if _word(data, 0) != LZ4_MAGIC:
        raise CorruptBatch("the data is no lz4 frame")
    flags, block_descriptor = _word(data, 3) >> 8 & 0xFF, _word(data, 3) >> 16 & 0xFF
    if flags >> 6 != 1 or not flags & 0x20:
        raise CorruptBatch("the lz4 frame has dependent blocks or an unknown version")
    largest = LZ4_BLOCK_SIZES.get(block_descriptor >> 4 & 7)
    if largest is None:
        raise CorruptBatch("the lz4 frame names an unknown block size")
    position = 7 + (8 if flags & 0x08 else 0)
    after_block = 4 if flags & 0x10 else 0
    most = 0
    while True:
        word = _word(data, position)
        position += 4
        size = word & ~LZ4_RAW_BLOCK
        if size == 0:
            break
        if size > largest or position + size + after_block > len(data):
            raise CorruptBatch(f"the lz4 frame has a block of {size} bytes, which does not fit")
        most += size if word & LZ4_RAW_BLOCK else min(largest, size * LZ4_GREATEST_RATIO)
        position += size + after_block
    position += 4 if flags & 0x04 else 0
    if position > len(data):
        raise CorruptBatch("the lz4 frame is cut short")
    return position, most


def zstd_bound(data: memoryview) -> int:
    """The maximum number of bytes that the concatenated frames can hold."""
    position = 0
    most = 0
    while position < len(data):
        magic = _word(data, position)
        if magic & 0xFFFF_FFF0 == ZSTD_SKIPPABLE:
            position += 8 + _word(data, position + 4)
        elif magic == ZSTD_MAGIC:
            position, held = _zstd_frame(data, position + 4)
            most += held
        else:
            raise CorruptBatch("the data is no zstd frame")
    return most


def _zstd_frame(data: memoryview, position: int) -> tuple[int, int]:
    """Where the frame ends whose header (after the magic) is at `position`, and its maximum decompressed
    size."""
    descriptor = _byte(data, position)
    single_segment = bool(descriptor & 0x20)
    position += 1
    largest = ZSTD_GREATEST_BLOCK
    if not single_segment:
        window = _byte(data, position)
        base = 1 << (10 + (window >> 3))
        largest = min(largest, base + base // 8 * (window & 7))
        position += 1
    position += _ZSTD_DICTIONARY_BYTES[descriptor & 3]
    content_bytes = _ZSTD_CONTENT_BYTES[descriptor >> 6] or (1 if single_segment else 0)
    content = int.from_bytes(data[position : position + content_bytes], "little")
    position += content_bytes
    most = 0
    last = False
    while not last:
        header = int.from_bytes(data[position : position + 3], "little")
        position += 3
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        most += size if kind != 2 else largest
        position += 1 if kind == 1 else size
        if position > len(data):
            raise CorruptBatch("the zstd frame is cut short")
    position += 4 if descriptor & 4 else 0
    if content_bytes:
        # A two-byte size counts from 256; an exact size is better than the bound from the blocks.
        most = min(most, content + (256 if content_bytes == 2 else 0))
    return position, most


def _byte(data: memoryview, position: int) -> int:
    if position >= len(data):
        raise CorruptBatch("the compressed data is cut short")
    return data[position]
