"""A view of a record batch of format v2: decodes the header in place, and the records on demand.

Contains the layout of the 61-byte header, decoding it, iterating over batches, and the two fields that a
leader patches in place.  Validating a client's batch belongs in check.py, and the formats before v2 in
legacy.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from fastcrc import crc32

from barnabas.base.errors import ErrorCode
from barnabas.batch.compression import DECOMPRESSED_LIMIT, Codec, decompress
from barnabas.batch.engine.decode import decode_records
from barnabas.batch.engine.faults import fault_text
from barnabas.batch.faults import CorruptBatch as CorruptBatch
from barnabas.batch.records import NO_PRODUCER_ID, NO_SEQUENCE, Record, TimestampType

Buffer = bytes | bytearray | memoryview

LOG_OVERHEAD = 12  # base offset and length, which the length does not include
HEADER_SIZE = 61
MAGIC_POSITION = 16
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
MAX_TIMESTAMP_POSITION = 35
MAGIC_V2 = 2
# The smallest record of format v0 has 14 bytes after the length field: anything less cannot be a batch.
SMALLEST_LENGTH = 14
# The minimal record: length, attributes, timestamp, offset, key length, value length, header count.
SMALLEST_RECORD = 7
MAX_SEQUENCE = 2**31 - 1

CODEC_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40
KNOWN_ATTRIBUTES = 0x7F

HEADER = Struct(">qiibIhiqqqhii")
_LENGTH = Struct(">i")
_CODECS = tuple(Codec)
_TIMESTAMP_TYPES = tuple(TimestampType)
_OFFSET = Struct(">q")
_EPOCH = Struct(">i")


class BatchView:
    """One v2 batch over a buffer, without a copy.  The header is decoded once, when the view is created."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size",
        "start",
    )

    def __init__(self, buffer: Buffer, start: int = 0) -> None:
        size = batch_size(buffer, start)
        if size is None or start + size > len(buffer):
            raise CorruptBatch(f"the batch at {start} is cut short: {len(buffer) - start} bytes are left")
        magic = buffer[start + MAGIC_POSITION]
        if magic != MAGIC_V2:
            raise CorruptBatch(f"the batch at {start} has the old format v{magic}; read it with batch.legacy")
        if size < HEADER_SIZE:
            raise CorruptBatch(f"the batch at {start} has {size} bytes, its header alone needs {HEADER_SIZE}")
        self.buffer = buffer
        self.start = start
        self.size = size
        self.base_offset: int
        self.leader_epoch: int
        self.magic: int
        self.crc: int
        self.attributes: int
        self.last_offset_delta: int
        self.base_timestamp: int
        self.max_timestamp: int
        self.producer_id: int
        self.producer_epoch: int
        self.base_sequence: int
        self.record_count: int
        (
            self.base_offset,
            _,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(buffer, start)

    @property
    def end(self) -> int:
        """The position of the next batch in the buffer."""
        return self.start + self.size

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; wraps to 0 after 2^31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE

    @property
    def codec(self) -> Codec:
        number = self.attributes & CODEC_MASK
        if number >= len(_CODECS):
            raise CorruptBatch(f"the batch at offset {self.base_offset} names the unknown codec {number}")
        return _CODECS[number]

    @property
    def timestamp_type(self) -> TimestampType:
        return _TIMESTAMP_TYPES[(self.attributes & LOG_APPEND_TIME_FLAG) >> 3]

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may remove tombstones and markers (KIP-534); stored in place of the base
        timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    def crc_ok(self) -> bool:
        """Whether the stored CRC-32C matches the bytes from the attributes to the end."""
        checked = memoryview(self.buffer)[self.start + ATTRIBUTES_POSITION : self.end]
        return int(crc32.iscsi(checked)) == self.crc

    def ensure_valid(self) -> None:
        """Raises CorruptBatch unless the CRC is right."""
        if not self.crc_ok():
            raise CorruptBatch(f"the batch at offset {self.base_offset} is corrupt: stored crc = {self.crc}")

    def payload(self, limit: int = DECOMPRESSED_LIMIT) -> bytes:
        """The decompressed records; raises before more than `limit` bytes are allocated."""
        stored = memoryview(self.buffer)[self.start + HEADER_SIZE : self.end]
        return decompress(self.codec, stored, limit)

    def records(self, limit: int = DECOMPRESSED_LIMIT) -> Iterator[Record]:
        """Every record, in order.  All are validated before the first is returned."""
        count = self.record_count
        if count == 0:
            return iter(())
        payload = self.payload(limit)
        self.ensure_count_fits(len(payload))
        log_append_time = self.attributes & LOG_APPEND_TIME_FLAG != 0
        base_timestamp = self.max_timestamp if log_append_time else self.base_timestamp
        fault, index, rows = decode_records(payload, count, self.base_offset, base_timestamp, log_append_time)
        if fault:
            raise CorruptBatch(
                f"record {index} of the batch at offset {self.base_offset}: {fault_text(fault)}",
                ErrorCode.INVALID_RECORD,
            )
        return map(Record._make, rows)

    def ensure_count_fits(self, payload_size: int) -> None:
        """Raises CorruptBatch if this many bytes cannot hold as many records as the header claims."""
        if not 0 <= self.record_count <= payload_size // SMALLEST_RECORD:
            raise CorruptBatch(
                f"the batch at offset {self.base_offset} counts {self.record_count} records "
                f"in {payload_size} bytes",
                ErrorCode.INVALID_RECORD,
            )

    def copy(self) -> bytes:
        """A copy of the batch's bytes."""
        return bytes(memoryview(self.buffer)[self.start : self.end])

    def __repr__(self) -> str:
        return (
            f"BatchView(offsets=[{self.base_offset}, {self.last_offset}], records={self.record_count}, "
            f"size={self.size}, attributes={self.attributes:#x}, producer_id={self.producer_id})"
        )


def batch_size(buffer: Buffer, start: int) -> int | None:
    """The total size of the batch (of any format) at `start`; None if too few bytes remain.

    The batch itself may still be truncated.  Raises for a length or a magic that no format has.
    """
    available = len(buffer) - start
    if available < LOG_OVERHEAD:
        return None
    (length,) = _LENGTH.unpack_from(buffer, start + 8)
    if length < SMALLEST_LENGTH:
        raise CorruptBatch(
            f"the batch at {start} gives its length as {length}; at least {SMALLEST_LENGTH} is needed"
        )
    if available <= MAGIC_POSITION:
        return None
    magic = buffer[start + MAGIC_POSITION]
    if magic > MAGIC_V2:
        raise CorruptBatch(f"the batch at {start} has the unknown format (magic) {magic}")
    return LOG_OVERHEAD + int(length)


def batches(buffer: Buffer, start: int = 0) -> Iterator[BatchView]:
    """Every complete batch from `start` on; an incomplete one at the end is skipped, a malformed one
    raises."""
    while True:
        size = batch_size(buffer, start)
        if size is None or start + size > len(buffer):
            return
        yield BatchView(buffer, start)
        start += size


def patch_offsets(buffer: bytearray | memoryview, start: int, base_offset: int, leader_epoch: int) -> None:
    """Set a batch's offset and leader epoch.  Both fields precede the CRC, which therefore stays valid."""
    _OFFSET.pack_into(buffer, start, base_offset)
    _EPOCH.pack_into(buffer, start + LOG_OVERHEAD, leader_epoch)


def batch_crc(buffer: Buffer, start: int, end: int) -> int:
    """The CRC-32C of the batch from `start` to `end`."""
    return int(crc32.iscsi(memoryview(buffer)[start + ATTRIBUTES_POSITION : end]))
