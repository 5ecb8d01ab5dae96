"""A view of a record batch of format v2: decodes the header in place, and the records on demand.

Contains the layout of the 61-byte header and its only decoder, iterating over batches, and the two fields
that a leader patches in place.  Validating a client's batch belongs in check.py, and the records of the
formats before v2 in legacy.py; only the header fields that a log needs to skip such batches are decoded here.
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
from barnabas.batch.records import NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, Record, TimestampType

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
# Length, magic and attributes: enough to tell what kind of batch it is.
_PEEK = Struct(">8xi4xb4xh")
_CODECS = tuple(Codec)
_TIMESTAMP_TYPES = tuple(TimestampType)
_pack_offset_into = Struct(">q").pack_into
_pack_epoch_into = Struct(">i").pack_into
_OFFSET_AND_LENGTH = Struct(">qi")
# Formats v0 and v1: one message stands where a batch does, and carries its own, which is the last, offset.
_LEGACY_TIME = Struct(">q")
_LEGACY_CRC = Struct(">I")
_LEGACY_CRC_POSITION = 12
_LEGACY_TIME_POSITION = 18
_LEGACY_SIZE_WITH_TIME = 26


class BatchHeader:
    """The header of a batch, and the position of the batch in a buffer or a file."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "last_offset",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size",
    )

    position: int
    size: int
    magic: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    crc: int

    def __init__(self, position: int, buffer: Buffer, start: int) -> None:
        self.position = position
        if buffer[start + MAGIC_POSITION] != MAGIC_V2:
            self._read_legacy(buffer, start)
            return
        (
            self.base_offset,
            length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(buffer, start)
        self.size = LOG_OVERHEAD + length
        self.last_offset = self.base_offset + last_offset_delta

    def _read_legacy(self, buffer: Buffer, start: int) -> None:
        self.magic = buffer[start + MAGIC_POSITION]
        self.last_offset, length = _OFFSET_AND_LENGTH.unpack_from(buffer, start)
        self.base_offset = self.last_offset
        self.size = LOG_OVERHEAD + length
        self.attributes = 0
        self.leader_epoch = self.producer_id = self.producer_epoch = self.base_sequence = -1
        self.record_count = -1
        self.base_timestamp = self.max_timestamp = NO_TIMESTAMP
        (self.crc,) = _LEGACY_CRC.unpack_from(buffer, start + _LEGACY_CRC_POSITION)
        if self.magic == 1 and len(buffer) >= start + _LEGACY_SIZE_WITH_TIME:
            (self.max_timestamp,) = _LEGACY_TIME.unpack_from(buffer, start + _LEGACY_TIME_POSITION)

    @property
    def end(self) -> int:
        """Where the next batch begins."""
        return self.position + self.size

    @property
    def last_offset_delta(self) -> int:
        return self.last_offset - self.base_offset

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

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
        return self.producer_id > NO_PRODUCER_ID

    def place(self, position: int, base_offset: int, leader_epoch: int) -> None:
        """The batch has got its place in the log; see `patch_offsets`."""
        self.last_offset += base_offset - self.base_offset
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch
        self.position = position

    def __repr__(self) -> str:
        return f"BatchHeader({self.base_offset}..{self.last_offset} at {self.position}, {self.size} bytes)"


class BatchView(BatchHeader):
    """One v2 batch over a buffer, without a copy.  The header is read once, when the view is made."""

    __slots__ = ("buffer", "start")

    def __init__(self, buffer: Buffer, start: int = 0) -> None:
        size = batch_size(buffer, start)
        if size is None or start + size > len(buffer):
            raise CorruptBatch(f"the batch at {start} is cut short: {len(buffer) - start} bytes are left")
        magic = buffer[start + MAGIC_POSITION]
        if magic != MAGIC_V2:
            raise CorruptBatch(f"the batch at {start} has the old format v{magic}; read it with batch.legacy")
        if size < HEADER_SIZE:
            raise CorruptBatch(f"the batch at {start} has {size} bytes, its header alone needs {HEADER_SIZE}")
        BatchHeader.__init__(self, start, buffer, start)
        self.buffer = buffer
        self.start = start

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
    def delete_horizon_ms(self) -> int | None:
        """When compaction may remove tombstones and markers (KIP-534); stored in place of the base
        timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    def crc_ok(self) -> bool:
        """Whether the stored CRC-32C matches the bytes from the attributes to the end."""
        checked = memoryview(self.buffer)[self.start + ATTRIBUTES_POSITION : self.end]
        return int(crc32.iscsi(checked)) == self.crc

    def ensure_valid(self) -> None:
        """Raises CorruptBatch unless the CRC is right."""
        if not self.crc_ok():
            raise self.wrong_crc()

    def wrong_crc(self) -> CorruptBatch:
        return CorruptBatch(f"the batch at offset {self.base_offset} is corrupt: stored crc = {self.crc}")

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


def attributes_of_only_batch(buffer: Buffer) -> int:
    """The attributes of the v2 batch that fills a buffer exactly; -1 if anything else is in there."""
    size = len(buffer)
    if size < HEADER_SIZE:
        return -1
    length, magic, attributes = _PEEK.unpack_from(buffer)
    return int(attributes) if length == size - LOG_OVERHEAD and magic == MAGIC_V2 else -1


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
    _pack_offset_into(buffer, start, base_offset)
    _pack_epoch_into(buffer, start + LOG_OVERHEAD, leader_epoch)


def batch_crc(buffer: Buffer, start: int, end: int) -> int:
    """The CRC-32C of the batch from `start` to `end`."""
    return int(crc32.iscsi(memoryview(buffer)[start + ATTRIBUTES_POSITION : end]))
