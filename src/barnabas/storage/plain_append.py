"""The short way of most appends: one sound batch that needs nothing but its offsets.

What lives here: the same checks as on the careful way (appending.py, batch/check.py, producer_append.py) for
the one case that makes up nearly all traffic, in the order that is cheapest.  What may not: refusing
anything.  Whatever is unusual, right or wrong, is left to the careful way, which looks at the batch anew;
nothing has been changed then.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from fastcrc import crc32

from barnabas.base.errors import KafkaError
from barnabas.batch.check import MAX_INT64, CheckRules
from barnabas.batch.compression import Codec, decompress
from barnabas.batch.engine.walk import walk
from barnabas.batch.records import TimestampType
from barnabas.batch.view import (
    ATTRIBUTES_POSITION,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    MAX_SEQUENCE,
    SMALLEST_RECORD,
)
from barnabas.runtime.disk import Buffer
from barnabas.storage.options import LogOptions
from barnabas.storage.producer_append import ProducerEntry

# A batch's own time, no transaction, no control records, no delete horizon: only a codec may be set.
_PLAIN_ATTRIBUTES = 4
_CODECS = tuple(Codec)
_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_crc32c = crc32.iscsi
_unpack_header = HEADER.unpack_from
_pack_base_offset = _BASE_OFFSET.pack_into
_pack_leader_epoch = _LEADER_EPOCH.pack_into


class PlainRules(NamedTuple):
    """When a batch is plain, from the topic's settings."""

    max_bytes: int
    # The one codec that is kept as it comes; None: all are.
    codec: Codec | None
    compacted: bool
    before_max_ms: int
    after_max_ms: int
    decompressed_limit: int
    segment_bytes: int
    segment_ms: int


# What is known of a batch that was found plain: size, number of records, largest time, producer id, producer
# epoch, base sequence.  A bare tuple, because one is made for every append.
PlainBatch = tuple[int, int, int, int, int, int]


def plain_rules(options: LogOptions, rules: CheckRules) -> PlainRules | None:
    """None if the topic asks for a change of every batch."""
    if rules.timestamp_type is not TimestampType.CREATE_TIME:
        return None
    return PlainRules(
        max_bytes=min(rules.max_message_bytes, options.segment_bytes),
        codec=rules.compression,
        compacted=rules.compacted,
        before_max_ms=rules.timestamp_before_max_ms,
        after_max_ms=rules.timestamp_after_max_ms,
        decompressed_limit=rules.decompressed_limit,
        segment_bytes=options.segment_bytes,
        segment_ms=options.max_segment_ms,
    )


def plain_batch(buffer: Buffer, rules: PlainRules, now_ms: int) -> PlainBatch | None:
    """The batch that fills a buffer, if it is one to be written as it is."""
    size = len(buffer)
    if size <= HEADER_SIZE or size > rules.max_bytes:
        return None
    (
        base_offset,
        length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = _unpack_header(buffer)
    if (
        magic != MAGIC_V2
        or length != size - LOG_OVERHEAD
        or base_offset
        or not 0 <= attributes <= _PLAIN_ATTRIBUTES
        or count != last_offset_delta + 1
    ):
        return None
    view = memoryview(buffer)
    if view.readonly or _crc32c(view[ATTRIBUTES_POSITION:]) != crc:
        return None
    payload = _payload(view, attributes, rules)
    if payload is None or not 0 < count <= len(payload) // SMALLEST_RECORD:
        return None
    fault, _, keyless, in_order, _, low, high = walk(payload, count)
    if fault or not in_order or (keyless and rules.compacted):
        return None
    if (
        base_timestamp + high != max_timestamp
        or base_timestamp + low < now_ms - rules.before_max_ms
        or max_timestamp > now_ms + rules.after_max_ms
        or not -MAX_INT64 <= base_timestamp + low <= max_timestamp <= MAX_INT64
    ):
        return None
    return size, count, max_timestamp, producer_id, producer_epoch, base_sequence


def _payload(view: memoryview, attributes: int, rules: PlainRules) -> bytes | None:
    codec = _CODECS[attributes]
    if rules.codec is not None and rules.codec is not codec:
        return None
    if not attributes:
        return bytes(view[HEADER_SIZE:])
    try:
        return decompress(codec, view[HEADER_SIZE:], rules.decompressed_limit)
    except KafkaError:
        return None


def continues(entry: ProducerEntry | None, epoch: int, base_sequence: int, count: int) -> bool:
    """Whether a batch is the next one of a producer that the log knows, outside of any transaction."""
    return (
        entry is not None
        and entry.epoch == epoch
        and entry.current_transaction_first_offset is None
        and bool(entry.batches)
        and base_sequence == entry.batches[-1].last_sequence + 1
        and base_sequence + count - 1 <= MAX_SEQUENCE
    )


def place(buffer: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Give the batch its place in the log; both fields lie before the CRC."""
    _pack_base_offset(buffer, 0, base_offset)
    _pack_leader_epoch(buffer, LOG_OVERHEAD, leader_epoch)
