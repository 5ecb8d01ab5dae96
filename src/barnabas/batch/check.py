"""Validates a batch before it is appended to a log: every check that Apache Kafka makes on a produce request,
with its error codes.

Contains the rules for clients, the rules that the topic's configuration adds, and the batch as it is to be
written: with its max timestamp, compressed as the topic requires, with consecutive offset deltas.  The log
itself, offsets and producer sequence numbers belong in `storage`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import NamedTuple

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.build import assemble, attribute_bits, build
from barnabas.batch.compression import Codec, compress
from barnabas.batch.engine.faults import fault_text
from barnabas.batch.engine.walk import Walk, walk
from barnabas.batch.faults import CorruptBatch
from barnabas.batch.records import NO_TIMESTAMP, Record, TimestampType
from barnabas.batch.view import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    KNOWN_ATTRIBUTES,
    LOG_APPEND_TIME_FLAG,
    MAGIC_POSITION,
    MAGIC_V2,
    MAX_TIMESTAMP_POSITION,
    BatchView,
    Buffer,
    batch_crc,
    batch_size,
)

MAX_INT64 = 2**63 - 1
FIRST_PRODUCE_VERSION_WITH_ZSTD = 7
# What a client's batch may decompress to, unless message.max.bytes is larger.  Apache Kafka has no such limit
# because it never holds a batch in memory; its clients split a batch that is rejected with MESSAGE_TOO_LARGE.
CLIENT_DECOMPRESSED_LIMIT = 32 * 1024 * 1024
# Errors are reported per record (KIP-467); a response lists at most this many.
RECORD_ERRORS_MAX = 1000
_ERRORS_SHOWN = 3

_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")


class AppendOrigin(Enum):
    """Origin of the append: the rules for clients apply only to clients."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    RAFT_LEADER = "raft leader"
    REPLICATION = "replication"


class Examination(NamedTuple):
    """The results of the costly checks of a batch so far, so that they are not repeated."""

    crc_ok: bool | None = None  # None: not computed yet
    payload: bytes | None = None  # the records, decompressed
    walked: Walk | None = None
    # The batch is valid, and only its offset and leader epoch are to be written into it.
    is_plain: bool = False


NOT_EXAMINED = Examination()


@dataclass(frozen=True, slots=True)
class CheckRules:
    """The rules that the topic's configuration sets for a batch."""

    compression: Codec | None = None  # None keeps the producer's codec
    compression_level: int | None = None
    compacted: bool = False
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = MAX_INT64
    timestamp_after_max_ms: int = MAX_INT64
    max_message_bytes: int = 1048588

    @property
    def decompressed_limit(self) -> int:
        return max(CLIENT_DECOMPRESSED_LIMIT, 2 * self.max_message_bytes)


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """A valid batch, ready to be written once `patch_offsets` has set its offset.

    `view` is over the caller's own buffer if that could be changed in place, else over a new one.
    `rewritten` means that the records were recompressed or renumbered, so that the size may differ.
    The max timestamp is attributed to the last offset, as everywhere in Apache Kafka's time index.
    """

    view: BatchView
    max_timestamp: int
    rewritten: bool


@dataclass(frozen=True, slots=True)
class RecordError:
    """The error of one record of a batch."""

    index: int
    message: str


class InvalidRecords(KafkaError):
    """Records that the topic rejects, each with its reason (KIP-467)."""

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def only_batch(buffer: Buffer, produce_version: int) -> BatchView:
    """The single batch of a partition's data in a produce request of version 3 or later."""
    size = batch_size(buffer, 0)
    if size is None or size > len(buffer):
        raise _invalid(f"produce version {produce_version} needs one whole batch for each partition")
    if buffer[MAGIC_POSITION] != MAGIC_V2:
        raise _invalid(f"produce version {produce_version} takes batches of format v2 only")
    view = BatchView(buffer)
    if produce_version < FIRST_PRODUCE_VERSION_WITH_ZSTD and _codec_of(view) is Codec.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs produce version {FIRST_PRODUCE_VERSION_WITH_ZSTD}, this one is {produce_version}",
        )
    following = batch_size(buffer, view.end)
    if following is not None and view.end + following <= len(buffer):
        raise _invalid(f"produce version {produce_version} takes one batch for each partition, not more")
    return view


def check_batch(
    view: BatchView,
    rules: CheckRules,
    *,
    now_ms: int,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    known: Examination = NOT_EXAMINED,
) -> CheckedBatch:
    """Validate a batch completely and prepare it for writing; raises KafkaError if it is rejected."""
    if origin is AppendOrigin.CLIENT and view.base_offset != 0:
        raise _invalid(f"a client's batch has the base offset 0, not {view.base_offset}")
    _check_size(view, rules)
    if not (view.crc_ok() if known.crc_ok is None else known.crc_ok):
        raise view.wrong_crc()
    if origin is AppendOrigin.CLIENT:
        _check_header(view)
    codec = _codec_of(view)
    payload = _decompressed(view, rules) if known.payload is None else known.payload
    view.ensure_count_fits(len(payload))
    fault, index, keyless, in_order, first, low, high = known.walked or walk(payload, view.record_count)
    if fault:
        raise _invalid(f"record {index}: {fault_text(fault)}")
    max_timestamp = _check_records(view, rules, now_ms, keyless, low, high)
    target = codec if rules.compression is None else rules.compression
    if (target is codec and in_order) or (codec is Codec.NONE and view.is_control):
        return _stamp(view, rules, now_ms, max_timestamp)
    plain = in_order and first == 0 and view.timestamp_type is TimestampType.CREATE_TIME
    rewritten = _recompress(view, rules, target, payload) if plain else _renumber(view, rules, target)
    _check_size(rewritten, rules)
    return CheckedBatch(_stamp(rewritten, rules, now_ms, max_timestamp).view, max_timestamp, rewritten=True)


def _invalid(message: str) -> CorruptBatch:
    return CorruptBatch(message, ErrorCode.INVALID_RECORD)


def _check_size(view: BatchView, rules: CheckRules) -> None:
    if view.size > rules.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {view.size} bytes; max.message.bytes allows {rules.max_message_bytes}",
        )


def _check_header(view: BatchView) -> None:
    """Checks that apply to a client's header only."""
    if view.last_offset_delta < 0:
        raise _invalid(f"the batch's last offset delta is {view.last_offset_delta}")
    if view.record_count <= 0:
        raise _invalid(f"the batch counts {view.record_count} records")
    if view.record_count != view.last_offset_delta + 1:
        raise _invalid(
            f"the batch counts {view.record_count} records, its offsets make {view.last_offset_delta + 1}"
        )
    if view.is_control:
        raise _invalid("clients may not write control records")
    if view.has_producer_id and view.base_sequence < 0:
        raise _invalid(f"producer {view.producer_id} gives the sequence number {view.base_sequence}")


def _codec_of(view: BatchView) -> Codec:
    """A decompression failure has no error code of its own: Apache Kafka returns UNKNOWN_SERVER_ERROR, which,
    unlike CORRUPT_MESSAGE, does not make clients retry the same bytes."""
    try:
        return view.codec
    except CorruptBatch as error:
        raise CorruptBatch(error.message, ErrorCode.UNKNOWN_SERVER_ERROR) from error


def _decompressed(view: BatchView, rules: CheckRules) -> bytes:
    """As `_codec_of` has it."""
    try:
        return view.payload(rules.decompressed_limit)
    except CorruptBatch as error:
        raise CorruptBatch(error.message, ErrorCode.UNKNOWN_SERVER_ERROR) from error


def _check_records(view: BatchView, rules: CheckRules, now_ms: int, keyless: int, low: int, high: int) -> int:
    """The max timestamp of the records as they are to be written, after checking their keys and
    timestamps."""
    stamped = view.timestamp_type is TimestampType.LOG_APPEND_TIME
    lowest = view.max_timestamp if stamped else view.base_timestamp + low
    highest = view.max_timestamp if stamped else view.base_timestamp + high
    if not -MAX_INT64 <= lowest <= highest <= MAX_INT64:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "a timestamp does not fit 64 bits")
    by_broker = rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    if by_broker or (stamped and lowest == NO_TIMESTAMP):
        times_fit = not stamped
    else:
        times_fit = _time_fits(lowest, rules, now_ms) and _time_fits(highest, rules, now_ms)
    if not times_fit or (keyless and rules.compacted):
        _raise_record_errors(view, rules, now_ms)
    if by_broker:
        return now_ms
    return max(highest, NO_TIMESTAMP) if view.record_count else view.max_timestamp


def _time_fits(timestamp: int, rules: CheckRules, now_ms: int) -> bool:
    return now_ms - rules.timestamp_before_max_ms <= timestamp <= now_ms + rules.timestamp_after_max_ms


def _raise_record_errors(view: BatchView, rules: CheckRules, now_ms: int) -> None:
    """Check every record again and report the invalid ones; a record without a timestamp (-1) is valid."""
    errors: list[RecordError] = []
    total = 0
    code = ErrorCode.INVALID_RECORD
    for index, record in enumerate(view.records(rules.decompressed_limit)):
        error = _record_error(view, record, rules, now_ms)
        if error is None:
            continue
        total += 1
        if error[0] is ErrorCode.INVALID_TIMESTAMP:
            code = error[0]
        if len(errors) < RECORD_ERRORS_MAX:
            errors.append(RecordError(index, error[1]))
    if not errors:
        return
    if code is ErrorCode.INVALID_TIMESTAMP:
        message = "One or more records have been rejected due to invalid timestamp"
    else:
        shown = "; ".join(f"record {each.index}: {each.message}" for each in errors[:_ERRORS_SHOWN])
        message = f"One or more records have been rejected due to {total} record errors in total: {shown}"
    raise InvalidRecords(code, message, tuple(errors))


def _record_error(
    view: BatchView, record: Record, rules: CheckRules, now_ms: int
) -> tuple[ErrorCode, str] | None:
    if rules.compacted and record.key is None:
        return ErrorCode.INVALID_RECORD, "Compacted topic cannot accept message without key"
    if rules.timestamp_type is TimestampType.CREATE_TIME and record.timestamp != NO_TIMESTAMP:
        if _time_fits(record.timestamp, rules, now_ms):
            return None
        message = (
            f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
            f"The timestamp should be within [{now_ms - rules.timestamp_before_max_ms}, "
            f"{now_ms + rules.timestamp_after_max_ms}]"
        )
        return ErrorCode.INVALID_TIMESTAMP, message
    if view.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return ErrorCode.INVALID_TIMESTAMP, "Producer should not set timestamp type to LogAppendTime"
    return None


def _stamp(view: BatchView, rules: CheckRules, now_ms: int, max_timestamp: int) -> CheckedBatch:
    """Write the max timestamp and its type into the header, and a new CRC if anything changed."""
    if view.timestamp_type is rules.timestamp_type and view.max_timestamp == max_timestamp:
        return CheckedBatch(view, max_timestamp, rewritten=False)
    start = view.start
    buffer: bytearray | memoryview
    if isinstance(view.buffer, bytes) or (isinstance(view.buffer, memoryview) and view.buffer.readonly):
        buffer, start = bytearray(view.copy()), 0
    else:
        buffer = view.buffer
    attributes = view.attributes & KNOWN_ATTRIBUTES & ~LOG_APPEND_TIME_FLAG
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_FLAG
    _ATTRIBUTES.pack_into(buffer, start + ATTRIBUTES_POSITION, attributes)
    _TIMESTAMP.pack_into(buffer, start + MAX_TIMESTAMP_POSITION, max_timestamp)
    crc = batch_crc(buffer, start, start + view.size)
    buffer[start + CRC_POSITION : start + CRC_POSITION + 4] = crc.to_bytes(4, "big")
    return CheckedBatch(BatchView(buffer, start), max_timestamp, rewritten=False)


def _recompress(view: BatchView, rules: CheckRules, target: Codec, payload: bytes) -> BatchView:
    """The same records with another codec."""
    return BatchView(
        assemble(
            compress(target, payload, rules.compression_level),
            base_offset=0,
            last_offset_delta=view.last_offset_delta,
            leader_epoch=view.leader_epoch,
            attributes=attribute_bits(
                target, view.timestamp_type, view.is_transactional, view.is_control, has_delete_horizon=False
            ),
            base_timestamp=view.base_timestamp,
            max_timestamp=view.max_timestamp,
            producer_id=view.producer_id,
            producer_epoch=view.producer_epoch,
            base_sequence=view.base_sequence,
            record_count=view.record_count,
        )
    )


def _renumber(view: BatchView, rules: CheckRules, target: Codec) -> BatchView:
    """The records with offset deltas 0, 1, 2 ... and timestamps relative to the first, as Apache Kafka
    rebuilds it."""
    records = view.records(rules.decompressed_limit)
    return BatchView(
        build(
            [record._replace(offset=index) for index, record in enumerate(records)],
            leader_epoch=view.leader_epoch,
            codec=target,
            level=rules.compression_level,
            producer_id=view.producer_id,
            producer_epoch=view.producer_epoch,
            base_sequence=view.base_sequence,
            transactional=view.is_transactional,
            control=view.is_control,
        )
    )
