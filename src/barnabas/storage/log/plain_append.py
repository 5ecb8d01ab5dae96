"""The fast path of most appends: one valid batch that needs only its offsets.

Makes the same checks as the general path (appends.py, batch/check.py, storage/producers/producer_append.py),
cheapest first, for the one case that makes up nearly all traffic.  It never rejects a batch.  Anything
unusual, valid or not, goes to the general path with the log unchanged; what was found (the CRC, the
decompressed records, the walk over them) is passed on, so that no batch is examined twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fastcrc import crc32

from barnabas.base.errors import KafkaError
from barnabas.batch.check import NOT_EXAMINED, CheckRules, Examination
from barnabas.batch.compression import Codec, decompress
from barnabas.batch.engine.walk import walk
from barnabas.batch.records import NO_TIMESTAMP, TimestampType
from barnabas.batch.view import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    MAX_SEQUENCE,
    TRANSACTIONAL_FLAG,
)
from barnabas.runtime.disk.disk import Buffer
from barnabas.storage.log.appends import AppendResult
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.producers.producer_append import ProducerEntry

if TYPE_CHECKING:
    from barnabas.storage.log.log import Log

_CODECS = tuple(Codec)
# CreateTime, no control records, no delete horizon: only a codec and the transactional bit may be set.
_UNUSUAL_ATTRIBUTES = ~(CODEC_MASK | TRANSACTIONAL_FLAG)
# The compiled walk found the records valid, with nothing that the general path would change.
_VALID = Examination(crc_ok=True, is_plain=True)
_WRONG_CRC = Examination(crc_ok=False)
_crc32c = crc32.iscsi
_unpack_header = HEADER.unpack_from


# What an append needs of a batch that is written unchanged: its record count, largest timestamp, producer id,
# producer epoch, base sequence, and whether it is transactional.
PlainBatch = tuple[int, int, int, int, int, int]


class PlainRules(NamedTuple):
    """The conditions for a plain batch, from the topic's configuration."""

    max_bytes: int
    # The one codec that is kept unchanged; None keeps all.
    codec: Codec | None
    compacted: bool
    before_max_ms: int
    after_max_ms: int
    decompressed_limit: int


def plain_rules(options: LogOptions, rules: CheckRules) -> PlainRules | None:
    """None if the topic's configuration changes every batch."""
    if rules.timestamp_type is not TimestampType.CREATE_TIME:
        return None
    return PlainRules(
        max_bytes=min(rules.max_message_bytes, options.segment_bytes),
        codec=rules.compression,
        compacted=rules.compacted,
        before_max_ms=rules.timestamp_before_max_ms,
        after_max_ms=rules.timestamp_after_max_ms,
        decompressed_limit=rules.decompressed_limit,
    )


def append_plain(log: Log, buffer: Buffer, leader_epoch: int, now_ms: int) -> AppendResult | Examination:
    """Append a plain batch; returns an Examination, with the log unchanged, if it needs the general path."""
    rules = log.plain_rules
    if rules is None:
        return NOT_EXAMINED
    batch = plain_batch(buffer, rules, now_ms)
    if isinstance(batch, Examination):
        return batch
    count, max_timestamp, producer_id, producer_epoch, base_sequence, is_transactional = batch
    producers = log.producers
    entry = None
    if producer_id >= 0 or is_transactional:
        entry = producers.entries.get(producer_id)
        if producers.is_verifying or not _continues(
            entry, producer_epoch, base_sequence, count, is_transactional
        ):
            return _VALID
    base_offset = log.end_offset
    last_offset = base_offset + count - 1
    try:
        if leader_epoch != log.epochs.latest_epoch or not log.segments.last.append_one(
            buffer,  # type: ignore[arg-type]  # a plain batch is writable
            base_offset,
            leader_epoch,
            last_offset,
            max_timestamp,
        ):
            return _VALID
    except OSError as error:
        raise log.not_appended(error) from error
    log.end_offset = producers.end_offset = last_offset + 1
    if entry is not None:
        entry.wrote(base_sequence + count - 1, last_offset, count - 1, max_timestamp)
    return AppendResult(
        base_offset, last_offset, max_timestamp, NO_TIMESTAMP, log.log_start_offset, len(buffer)
    )


def plain_batch(buffer: Buffer, rules: PlainRules, now_ms: int) -> PlainBatch | Examination:
    """The fields of the batch in the buffer if it can be written unchanged; otherwise its Examination."""
    max_bytes, codec, compacted, before_max_ms, after_max_ms, _ = rules
    size = len(buffer)
    if not HEADER_SIZE < size <= max_bytes:
        return NOT_EXAMINED
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
    view = memoryview(buffer)
    if (
        length != size - LOG_OVERHEAD
        or magic != MAGIC_V2
        or base_offset != 0
        or attributes & _UNUSUAL_ATTRIBUTES
        or count <= 0
        or count != last_offset_delta + 1
        or base_timestamp < 0
        or base_sequence < 0 <= producer_id
        or view.readonly
    ):
        return NOT_EXAMINED
    if _crc32c(view[ATTRIBUTES_POSITION:]) != crc:
        return _WRONG_CRC
    if codec is None and not attributes & CODEC_MASK:
        payload = bytes(view[HEADER_SIZE:])
    else:
        decompressed = _payload(view, attributes & CODEC_MASK, rules)
        if decompressed is None:
            return Examination(crc_ok=True)
        payload = decompressed
    walked = walk(payload, count)
    fault, _, keyless, in_order, _, low, high = walked
    if (
        fault
        or not in_order
        or base_timestamp + high != max_timestamp
        or base_timestamp + low < now_ms - before_max_ms
        or max_timestamp > now_ms + after_max_ms
        or (keyless and compacted)
    ):
        return Examination(True, payload, walked)
    return count, max_timestamp, producer_id, producer_epoch, base_sequence, attributes & TRANSACTIONAL_FLAG


def _payload(view: memoryview, number: int, rules: PlainRules) -> bytes | None:
    """The decompressed records; None if the general path must recompress or reject the batch."""
    codec = _CODECS[number] if number < len(_CODECS) else None
    if codec is None or (rules.codec is not None and rules.codec is not codec):
        return None
    try:
        return decompress(codec, view[HEADER_SIZE:], rules.decompressed_limit)
    except KafkaError:
        return None


def _continues(
    entry: ProducerEntry | None, epoch: int, base_sequence: int, count: int, is_transactional: int
) -> bool:
    """Whether the batch continues a known producer's sequence, and its open transaction if transactional."""
    return (
        entry is not None
        and entry.epoch == epoch
        and (entry.current_transaction_first_offset is not None) == (is_transactional != 0)
        and bool(entry.batches)
        and base_sequence == entry.batches[-1].last_sequence + 1
        and base_sequence + count - 1 <= MAX_SEQUENCE
    )
