"""The output of compaction: batches with fewer records, or none, under the original header.

Contains the encoding of a rewritten batch.  Which records are kept belongs in compaction.py.
"""

from __future__ import annotations

from typing import Final, Protocol, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i16_be, write_i32_be, write_i64_be
from librt.vecs import append, vec
from mypy_extensions import i16, i32, i64

from barnabas.batch.engine.varints import size_of_varint, write_varint

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

NO_TIMESTAMP: Final = -1
WORDS_PER_RECORD: Final = 4


class CleanerContext(Protocol):
    """State that is not part of the chunk: transactions, producers, codecs, checksums."""

    def is_aborted(self, producer_id: int, last_offset: int) -> bool:
        """Called for a transactional batch: whether it belongs to an aborted transaction."""
        ...

    def is_marker_idle(self, producer_id: int, last_offset: int, control_type: int) -> bool:
        """Called for a control batch: whether no data of its transaction remains.  (-1: a batch without
        records.)"""
        ...

    def ends_producer(self, producer_id: int, producer_epoch: int, last_offset: int, control: bool) -> bool:
        """Whether this batch is the only one with the producer's last sequence number or epoch."""
        ...

    def checksum(self, data: bytes) -> int: ...

    def decompress(self, codec: int, data: bytes) -> bytes: ...

    def compress(self, codec: int, data: bytes) -> bytes: ...


@final
class Walk:
    """Counters of a pass over a chunk and, when it filters, its output."""

    def __init__(self) -> None:
        self.bytes_read: i64 = 0
        self.records_read: i64 = 0
        self.records_kept: i64 = 0
        self.keyless: i64 = 0
        # Of the last batch written.
        self.last_offset: i64 = -1
        self.full: bool = False
        self.out: BytesWriter = BytesWriter()

    def output(self) -> bytes:
        return self.out.getvalue()


@final
class Kept:
    """The kept records of one batch, WORDS_PER_RECORD words each: start, position after the timestamp, end,
    timestamp."""

    def __init__(self) -> None:
        self.positions: vec[i64] = vec[i64]()
        self.count: i64 = 0
        self.tombstones: bool = False
        self.max_timestamp: i64 = NO_TIMESTAMP
        self.first_timestamp: i64 = NO_TIMESTAMP

    def add(self, start: i64, after_time: i64, end: i64, timestamp: i64) -> None:
        if self.count == 0:
            self.first_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        positions = self.positions
        positions = append(positions, start)
        positions = append(positions, after_time)
        positions = append(positions, end)
        self.positions = append(positions, timestamp)
        self.count += 1


def write_empty(chunk: bytes, at: i64, attributes: i64, walk: Walk, context: CleanerContext) -> None:
    """Keep the header only, without codec and delete horizon: offsets, producer, epoch and sequence."""
    flags = attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    _write_batch(chunk, at, flags, NO_TIMESTAMP, read_i64_be(chunk, at + 35), 0, b"", walk, context)


def rewrite(
    chunk: bytes,
    at: i64,
    attributes: i64,
    records: bytes,
    kept: Kept,
    horizon: i64,
    walk: Walk,
    context: CleanerContext,
) -> None:
    """The batch with the kept records only.  Base and last offset stay, and with them the sequence
    numbers."""
    flags = attributes & (CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    append_time = attributes & LOG_APPEND_TIME != 0
    max_timestamp = kept.max_timestamp
    base_timestamp = kept.first_timestamp
    if append_time:
        max_timestamp = read_i64_be(chunk, at + 35)
        base_timestamp = max_timestamp
    if horizon >= 0:
        flags |= DELETE_HORIZON
        base_timestamp = horizon
    if not append_time and base_timestamp == read_i64_be(chunk, at + 27):
        plain = _copied(records, kept)
    else:
        plain = _restamped(records, kept, base_timestamp, max_timestamp if append_time else NO_TIMESTAMP)
    codec = flags & CODEC_MASK
    packed = context.compress(codec, plain) if codec != 0 else plain
    _write_batch(chunk, at, flags, base_timestamp, max_timestamp, kept.count, packed, walk, context)


def _copied(records: bytes, kept: Kept) -> bytes:
    """The kept records unchanged, adjacent ones in one piece."""
    out = BytesWriter()
    positions = kept.positions
    words = kept.count * WORDS_PER_RECORD
    index: i64 = 0
    while index < words:
        start = positions[index]
        end = positions[index + 2]
        index += WORDS_PER_RECORD
        while index < words and positions[index] == end:
            end = positions[index + 2]
            index += WORDS_PER_RECORD
        out.write(records[start:end])
    return out.getvalue()


def _restamped(records: bytes, kept: Kept, base_timestamp: i64, append_timestamp: i64) -> bytes:
    """The kept records with timestamps relative to another base; append_timestamp, if set, applies to all."""
    out = BytesWriter()
    positions = kept.positions
    index: i64 = 0
    while index < kept.count * WORDS_PER_RECORD:
        timestamp = positions[index + 3] if append_timestamp < 0 else append_timestamp
        delta = timestamp - base_timestamp
        after_time = positions[index + 1]
        end = positions[index + 2]
        write_varint(out, 1 + size_of_varint(delta) + end - after_time)
        out.append(0)
        write_varint(out, delta)
        out.write(records[after_time:end])
        index += WORDS_PER_RECORD
    return out.getvalue()


def _write_batch(
    chunk: bytes,
    at: i64,
    flags: i64,
    base_timestamp: i64,
    max_timestamp: i64,
    count: i64,
    packed: bytes,
    walk: Walk,
    context: CleanerContext,
) -> None:
    """A batch with new attributes, timestamps, count and records; all other fields are the original's."""
    tail = BytesWriter()
    write_i16_be(tail, i16(flags))
    write_i32_be(tail, read_i32_be(chunk, at + 23))
    write_i64_be(tail, base_timestamp)
    write_i64_be(tail, max_timestamp)
    tail.write(chunk[at + 43 : at + 57])
    write_i32_be(tail, i32(count))
    tail.write(packed)
    checked = tail.getvalue()
    checksum: i64 = context.checksum(checked)
    out = walk.out
    write_i64_be(out, read_i64_be(chunk, at))
    write_i32_be(out, i32(len(checked) + 21 - LOG_OVERHEAD))
    out.write(chunk[at + 12 : at + 17])
    write_i32_be(out, i32(checksum - 0x1_0000_0000 if checksum > 0x7FFF_FFFF else checksum))
    out.write(checked)
    walk.last_offset = read_i64_be(chunk, at) + i64(read_i32_be(chunk, at + 23))
