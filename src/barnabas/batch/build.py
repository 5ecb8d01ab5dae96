"""Builds batches of format v2, byte for byte as Apache Kafka's own builder does.

Contains the way from records to a complete batch, and the empty batch that compaction leaves.  The contents
of control records belong in control.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.batch.compression import Codec, compress
from barnabas.batch.engine.encode import Row, encode_records
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
    CONTROL_FLAG,
    CRC_POSITION,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC_V2,
    TRANSACTIONAL_FLAG,
    batch_crc,
)

MAX_OFFSET_DELTA = 2**31 - 1


def build(
    records: Iterable[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    leader_epoch: int = NO_LEADER_EPOCH,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time_ms: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """A batch of these records, at their own offsets; gaps, as compaction leaves them, are kept.

    `base_offset` defaults to the first record's and `last_offset` to the last one's; a cleaned batch keeps
    its original ones.
    """
    rows: list[Row] = list(records)
    if not rows:
        raise ValueError(
            "a batch has at least one record; build_empty() makes the header that compaction leaves"
        )
    first = rows[0][0] if base_offset is None else base_offset
    last = rows[-1][0] if last_offset is None else last_offset
    base_timestamp = rows[0][1] if delete_horizon_ms is None else delete_horizon_ms
    payload, max_timestamp, disordered = encode_records(rows, first, base_timestamp)
    if disordered >= 0:
        raise ValueError(f"offset {rows[disordered][0]} is out of order: offsets start at {first} and grow")
    if not rows[-1][0] <= last <= first + MAX_OFFSET_DELTA:
        raise ValueError(f"the offsets {first} to {last} do not fit one batch")
    if timestamp_type is TimestampType.LOG_APPEND_TIME and log_append_time_ms is not None:
        max_timestamp = log_append_time_ms
    return assemble(
        compress(codec, payload, level),
        base_offset=first,
        last_offset_delta=last - first,
        leader_epoch=leader_epoch,
        attributes=attribute_bits(
            codec, timestamp_type, transactional, control, delete_horizon_ms is not None
        ),
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(rows),
    )


def build_empty(
    base_offset: int,
    last_offset: int,
    *,
    leader_epoch: int = NO_LEADER_EPOCH,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    max_timestamp: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """A header without records: compaction keeps it to preserve a producer's last sequence number."""
    return assemble(
        b"",
        base_offset=base_offset,
        last_offset_delta=last_offset - base_offset,
        leader_epoch=leader_epoch,
        attributes=attribute_bits(Codec.NONE, timestamp_type, transactional, control, False),
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=0,
    )


def attribute_bits(
    codec: Codec, timestamp_type: TimestampType, transactional: bool, control: bool, has_delete_horizon: bool
) -> int:
    """The attributes field of a batch."""
    bits = int(codec)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        bits |= LOG_APPEND_TIME_FLAG
    if transactional:
        bits |= TRANSACTIONAL_FLAG
    if control:
        bits |= CONTROL_FLAG
    if has_delete_horizon:
        bits |= DELETE_HORIZON_FLAG
    return bits


def assemble(
    payload: bytes,
    *,
    base_offset: int,
    last_offset_delta: int,
    leader_epoch: int,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> bytearray:
    """Header, CRC and an already compressed payload."""
    batch = bytearray(HEADER_SIZE + len(payload))
    batch[HEADER_SIZE:] = payload
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC_V2,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    batch[CRC_POSITION : CRC_POSITION + 4] = batch_crc(batch, 0, len(batch)).to_bytes(4, "big")
    return batch
