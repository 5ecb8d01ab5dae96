"""Iterates over the batches of a log file by their headers, without decoding records.

Formats v0 and v1 (old logs) are supported too: there one message, or one compressed wrapper message, takes
the place of a batch and carries its last offset.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct

from fastcrc import crc32

from barnabas.batch.view import (
    ATTRIBUTES_POSITION,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V2,
    SMALLEST_LENGTH,
    BatchHeader,
    CorruptBatch,
)
from barnabas.runtime.disk.disk import Buffer, File

# The read-ahead for headers: a few batches of the default index interval.
WINDOW_BYTES = 8192
# Batches are returned in pieces of about this size; a larger batch is a piece of its own.
PIECE_BYTES = 1 << 20
# No writer produces larger batches (message.max.bytes is an int32); a larger length is damage.
LARGEST_BATCH = 2**31 - 1

_OFFSET_AND_LENGTH = Struct(">qi")


def header_at(buffer: Buffer, start: int, position: int) -> BatchHeader | None:
    """The header at `start`; None if the buffer ends within it.  Raises CorruptBatch if it is invalid."""
    left = len(buffer) - start
    if left <= MAGIC_POSITION:
        return None
    _, length = _OFFSET_AND_LENGTH.unpack_from(buffer, start)
    if length < SMALLEST_LENGTH or length > LARGEST_BATCH - LOG_OVERHEAD:
        raise CorruptBatch(f"the batch at position {position} gives its length as {length}")
    magic = buffer[start + MAGIC_POSITION]
    if magic > MAGIC_V2:
        raise CorruptBatch(f"the batch at position {position} has the unknown format (magic) {magic}")
    if magic == MAGIC_V2 and length < HEADER_SIZE - LOG_OVERHEAD:
        raise CorruptBatch(f"the batch at position {position} gives its length as {length}")
    if left < min(LOG_OVERHEAD + length, HEADER_SIZE):
        return None
    header = BatchHeader(position, buffer, start)
    if header.last_offset < header.base_offset or header.base_offset < 0:
        raise CorruptBatch(
            f"the batch at position {position} has the offsets {header.base_offset} to {header.last_offset}"
        )
    return header


def headers(file: File, start: int, end: int) -> Iterator[BatchHeader]:
    """The header of every complete batch between two positions of the file, up to an incomplete one."""
    position, window, window_start = start, b"", start
    while position < end:
        within = position - window_start
        if within + HEADER_SIZE > len(window) and window_start + len(window) < end:
            window, window_start, within = (
                file.read_at(position, min(WINDOW_BYTES, end - position)),
                position,
                0,
            )
        header = header_at(window, within, position)
        if header is None or header.end > end:
            return
        yield header
        position = header.end


def pieces(file: File, start: int, end: int) -> Iterator[tuple[int, bytes, list[BatchHeader]]]:
    """(position, bytes, headers) of complete batches between two positions, in bounded pieces.

    The bytes may end with a part of the next batch: removing it would copy them all.
    """
    position = start
    while position < end:
        data = file.read_at(position, min(PIECE_BYTES, end - position))
        first = header_at(data, 0, position)
        if first is not None and first.size > len(data) and first.end <= end:
            data = file.read_at(position, first.size)
        found = list(_headers_of(data, position))
        if not found:
            return
        yield position, data, found
        position = found[-1].end


def _headers_of(data: bytes, position: int) -> Iterator[BatchHeader]:
    start = 0
    while start < len(data):
        try:
            header = header_at(data, start, position + start)
        except CorruptBatch:
            if start == 0:
                raise
            return  # the valid batches before it are returned first
        if header is None or start + header.size > len(data):
            return
        yield header
        start += header.size


def crc_ok(header: BatchHeader, data: Buffer, start: int) -> bool:
    """Whether the batch's CRC is right; the buffer must contain the complete batch."""
    view = memoryview(data)
    if header.magic == MAGIC_V2:
        return int(crc32.iscsi(view[start + ATTRIBUTES_POSITION : start + header.size])) == header.crc
    return zlib.crc32(view[start + MAGIC_POSITION : start + header.size]) == header.crc
