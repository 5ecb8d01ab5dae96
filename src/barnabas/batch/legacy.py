"""Reads the formats before v2, which old logs still contain: single messages and compressed wrappers.

Contains a view with the interface of BatchView over a message of format v0 or v1, and iteration over a buffer
with mixed formats.  They are never written: clients no longer send them and logs no longer store them
(KIP-724).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct

from barnabas.base.errors import ErrorCode
from barnabas.batch.build import build
from barnabas.batch.compression import DECOMPRESSED_LIMIT, Codec, decompress
from barnabas.batch.faults import CorruptBatch
from barnabas.batch.frames import LZ4_MAGIC
from barnabas.batch.records import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Record,
    TimestampType,
)
from barnabas.batch.view import (
    CODEC_MASK,
    LOG_APPEND_TIME_FLAG,
    MAGIC_POSITION,
    MAGIC_V2,
    BatchView,
    Buffer,
    batch_size,
)

ATTRIBUTES_POSITION = 17
TIMESTAMP_POSITION = 18
_HEADER = Struct(">qiIbb")
_TIMESTAMP = Struct(">q")
_LENGTH = Struct(">i")


class OldBatch:
    """One message of format v0 or v1 over a buffer; a compressed one is a wrapper around many.

    Its offset is that of the last inner message, so the first one's is only known after decompression.
    """

    leader_epoch = NO_LEADER_EPOCH
    producer_id = NO_PRODUCER_ID
    producer_epoch = NO_PRODUCER_EPOCH
    base_sequence = NO_SEQUENCE
    last_sequence = NO_SEQUENCE
    has_producer_id = False
    is_transactional = False
    is_control = False
    delete_horizon_ms = None

    __slots__ = ("attributes", "buffer", "crc", "last_offset", "magic", "max_timestamp", "size", "start")

    def __init__(self, buffer: Buffer, start: int = 0) -> None:
        size = batch_size(buffer, start)
        if size is None or start + size > len(buffer):
            raise CorruptBatch(f"the message at {start} is cut short: {len(buffer) - start} bytes are left")
        self.buffer = buffer
        self.start = start
        self.size = size
        self.last_offset: int
        self.crc: int
        self.magic: int
        self.attributes: int
        self.last_offset, _, self.crc, self.magic, self.attributes = _HEADER.unpack_from(buffer, start)
        self.max_timestamp: int = NO_TIMESTAMP
        if self.magic == 1:
            if size < TIMESTAMP_POSITION + _TIMESTAMP.size:
                raise CorruptBatch(f"the message at offset {self.last_offset} has no room for its time")
            (self.max_timestamp,) = _TIMESTAMP.unpack_from(buffer, start + TIMESTAMP_POSITION)
        elif self.magic != 0:
            raise CorruptBatch(f"the batch at {start} has format v{self.magic}, which is not an old one")

    @property
    def end(self) -> int:
        return self.start + self.size

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def base_offset(self) -> int:
        """The first message's offset; decompresses a wrapper."""
        if self.codec is Codec.NONE:
            return self.last_offset
        return next(self.records()).offset

    @property
    def codec(self) -> Codec:
        number = self.attributes & CODEC_MASK
        if number >= Codec.ZSTD:
            raise _invalid(f"the message at offset {self.last_offset} has codec {number}")
        return Codec(number)

    @property
    def timestamp_type(self) -> TimestampType:
        if self.magic == 0:
            return TimestampType.CREATE_TIME
        return TimestampType((self.attributes & LOG_APPEND_TIME_FLAG) >> 3)

    def crc_ok(self) -> bool:
        """Whether the stored CRC-32 matches the bytes from the magic on."""
        checked = memoryview(self.buffer)[self.start + MAGIC_POSITION : self.end]
        return zlib.crc32(checked) == self.crc

    def records(self, limit: int = DECOMPRESSED_LIMIT) -> Iterator[Record]:
        """The message itself, or every message in the wrapper, with its absolute offset."""
        messages = self.messages(limit)
        shift = 0 if self.codec is Codec.NONE else self._shift(messages[-1].last_offset)
        stamped = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        return iter(
            [
                Record(
                    shift + message.last_offset,
                    self.max_timestamp if stamped and message.magic == 1 else message.max_timestamp,
                    *message._content(),
                )
                for message in messages
            ]
        )

    def messages(self, limit: int = DECOMPRESSED_LIMIT) -> list[OldBatch]:
        """The message itself, or the unmodified messages in the wrapper, one for each of `records`."""
        _, value = self._content()
        if self.codec is Codec.NONE:
            return [self]
        if value is None:
            raise _invalid(f"the wrapper at offset {self.last_offset} holds nothing")
        if self.codec is Codec.LZ4 and self.magic == 0:
            value = repair_lz4_header(value)
        payload = decompress(self.codec, value, limit)
        messages: list[OldBatch] = []
        position = 0
        while True:
            size = batch_size(payload, position)
            if size is None or position + size > len(payload):
                break
            message = OldBatch(payload, position)
            if message.codec is not Codec.NONE:
                raise _invalid(f"the wrapper at offset {self.last_offset} holds another wrapper")
            messages.append(message)
            position = message.end
        if not messages:
            raise _invalid(f"the wrapper at offset {self.last_offset} holds nothing")
        return messages

    def _shift(self, last_inside: int) -> int:
        """The difference to the inner offsets: those of v1 are relative, and the wrapper has the last
        one's."""
        if self.magic == 0 or self.last_offset == 0:
            # Some old clients left the wrapper's offset 0; then the inner offsets are used unchanged.
            return 0
        if self.last_offset < last_inside:
            raise _invalid(f"the wrapper at offset {self.last_offset} holds the offset {last_inside}")
        return self.last_offset - last_inside

    def _content(self) -> tuple[bytes | None, bytes | None]:
        position = self.start + ATTRIBUTES_POSITION + 1 + (_TIMESTAMP.size if self.magic == 1 else 0)
        key, position = self._bytes_at(position)
        value, position = self._bytes_at(position)
        return key, value

    def _bytes_at(self, position: int) -> tuple[bytes | None, int]:
        if position + _LENGTH.size > self.end:
            raise _invalid(f"the message at offset {self.last_offset} is cut short")
        (length,) = _LENGTH.unpack_from(self.buffer, position)
        position += _LENGTH.size
        if length < 0:
            return None, position
        if length > self.end - position:
            raise _invalid(f"the message at offset {self.last_offset} gives the length {length} for a field")
        return bytes(memoryview(self.buffer)[position : position + length]), position + length

    def __repr__(self) -> str:
        return f"OldBatch(magic={self.magic}, last_offset={self.last_offset}, size={self.size})"


def all_batches(buffer: Buffer, start: int = 0) -> Iterator[BatchView | OldBatch]:
    """Every complete batch of any format from `start` on; an incomplete one at the end is skipped."""
    while True:
        size = batch_size(buffer, start)
        if size is None or start + size > len(buffer):
            return
        if buffer[start + MAGIC_POSITION] == MAGIC_V2:
            yield BatchView(buffer, start)
        else:
            yield OldBatch(buffer, start)
        start += size


def repair_lz4_header(frame: bytes) -> bytes:
    """Correct the header checksum of a v0 wrapper's frame: its writers computed it over the wrong bytes."""
    if len(frame) < 7 or int.from_bytes(frame[:4], "little") != LZ4_MAGIC:
        return frame
    end = 14 if frame[4] & 0x08 else 6
    checksum = short_xxhash32(frame[4:end]) >> 8 & 0xFF
    return frame[:end] + bytes((checksum,)) + frame[end + 1 :]


def up_converted(batch: OldBatch) -> BatchView:
    """A batch of an old format in the current one, from which columns are read."""
    return BatchView(bytes(build(list(batch.records()), timestamp_type=batch.timestamp_type)))


def short_xxhash32(data: bytes) -> int:
    """xxHash32 with seed 0 of less than 16 bytes, which suffices for a frame header."""
    accumulator = 374761393 + len(data)
    position = 0
    while position + 4 <= len(data):
        word = int.from_bytes(data[position : position + 4], "little")
        accumulator = (accumulator + word * 3266489917) & 0xFFFFFFFF
        accumulator = (_rotate(accumulator, 17) * 668265263) & 0xFFFFFFFF
        position += 4
    for byte in data[position:]:
        accumulator = (accumulator + byte * 374761393) & 0xFFFFFFFF
        accumulator = (_rotate(accumulator, 11) * 2654435761) & 0xFFFFFFFF
    accumulator ^= accumulator >> 15
    accumulator = (accumulator * 2246822519) & 0xFFFFFFFF
    accumulator ^= accumulator >> 13
    accumulator = (accumulator * 3266489917) & 0xFFFFFFFF
    return accumulator ^ (accumulator >> 16)


def _rotate(word: int, count: int) -> int:
    return (word << count | word >> (32 - count)) & 0xFFFFFFFF


def _invalid(message: str) -> CorruptBatch:
    return CorruptBatch(message, ErrorCode.INVALID_RECORD)
