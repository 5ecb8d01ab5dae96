"""Walking the batches of a log file by their headers alone.

What lives here: where batches begin and end in a file, what their headers say, and reading them whole in
bounded pieces.  What may not: the records inside.  Formats v0 and v1 (old logs) are walked too: there one
message, or one compressed wrapper, stands where a batch does, and carries its last offset.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct

from fastcrc import crc32

from barnabas.batch.records import NO_SEQUENCE
from barnabas.batch.view import (
    ATTRIBUTES_POSITION,
    CONTROL_FLAG,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V2,
    MAX_SEQUENCE,
    SMALLEST_LENGTH,
    TRANSACTIONAL_FLAG,
    CorruptBatch,
)
from barnabas.runtime.disk.disk import Buffer, File

# Read ahead while looking for headers: some batches of the default index interval.
WINDOW_BYTES = 8192
# Batches are handed out in pieces of about this size; a larger batch comes alone.
PIECE_BYTES = 1 << 20
# No writer makes larger batches (message.max.bytes is an int32); a larger length is damage.
LARGEST_BATCH = 2**31 - 1

_SMALL_HEAD = Struct(">qi")
_LEGACY_TIME = Struct(">q")
_LEGACY_CRC = Struct(">I")
LEGACY_CRC_POSITION = 12
LEGACY_TIME_POSITION = 18
LEGACY_SIZE_WITH_TIME = 26


class BatchHeader:
    """What a batch's header says, and where in the file it stands."""

    position: int
    size: int
    magic: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    crc: int

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "crc",
        "last_offset",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "position",
        "producer_epoch",
        "producer_id",
        "size",
    )

    def __init__(self, position: int, buffer: Buffer, start: int) -> None:
        self.position = position
        self.magic = buffer[start + MAGIC_POSITION]
        if self.magic != MAGIC_V2:
            self._read_legacy(buffer, start)
            return
        (
            self.base_offset,
            length,
            self.leader_epoch,
            _,
            self.crc,
            self.attributes,
            last_offset_delta,
            _,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            _,
        ) = HEADER.unpack_from(buffer, start)
        self.size = LOG_OVERHEAD + length
        self.last_offset = self.base_offset + last_offset_delta

    def _read_legacy(self, buffer: Buffer, start: int) -> None:
        self.last_offset, length = _SMALL_HEAD.unpack_from(buffer, start)
        self.base_offset = self.last_offset
        self.size = LOG_OVERHEAD + length
        self.attributes = 0
        self.leader_epoch = self.producer_id = self.producer_epoch = self.base_sequence = -1
        self.max_timestamp = -1
        (self.crc,) = _LEGACY_CRC.unpack_from(buffer, start + LEGACY_CRC_POSITION)
        if self.magic == 1 and len(buffer) >= start + LEGACY_SIZE_WITH_TIME:
            (self.max_timestamp,) = _LEGACY_TIME.unpack_from(buffer, start + LEGACY_TIME_POSITION)

    @property
    def end(self) -> int:
        return self.position + self.size

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; after 2^31 - 1 comes 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset - self.base_offset) & MAX_SEQUENCE

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    def __repr__(self) -> str:
        return f"Head({self.base_offset}..{self.last_offset} at {self.position}, {self.size} bytes)"


def header_at(buffer: Buffer, start: int, position: int) -> BatchHeader | None:
    """The header at `start` of the buffer; None if the buffer ends within it; CorruptBatch if it is none."""
    left = len(buffer) - start
    if left <= MAGIC_POSITION:
        return None
    _, length = _SMALL_HEAD.unpack_from(buffer, start)
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
    """The header of every whole batch of the file between two positions; an incomplete one ends it."""
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
    """(position, bytes, headers) of whole batches between two positions, in bounded pieces.

    The bytes may go on with a part of the next batch: cutting it off would copy them all.
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
            return  # the sound batches before it are handed out first
        if header is None or start + header.size > len(data):
            return
        yield header
        start += header.size


def crc_ok(header: BatchHeader, data: Buffer, start: int) -> bool:
    """Whether the batch's CRC is right; the whole batch must be in the buffer."""
    view = memoryview(data)
    if header.magic == MAGIC_V2:
        return int(crc32.iscsi(view[start + ATTRIBUTES_POSITION : start + header.size])) == header.crc
    return zlib.crc32(view[start + MAGIC_POSITION : start + header.size]) == header.crc
