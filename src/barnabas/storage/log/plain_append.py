"""The short way of most appends: one sound batch that needs nothing but its offsets.

What lives here: the same checks as on the careful way (appending.py, batch/check.py, producer_append.py) for
the one case that makes up nearly all traffic, in the order that is cheapest.  What may not: refusing
anything.  Whatever is unusual, right or wrong, is left to the careful way, which looks at the batch anew;
nothing has been changed then.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from fastcrc import crc32

from barnabas.base.errors import KafkaError
from barnabas.batch.check import CheckRules
from barnabas.batch.compression import Codec, decompress
from barnabas.batch.engine.plain import Plain, inspect
from barnabas.batch.records import NO_TIMESTAMP, TimestampType
from barnabas.batch.view import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAX_SEQUENCE,
    TRANSACTIONAL_FLAG,
)
from barnabas.runtime.disk.disk import Buffer
from barnabas.storage.failure import StorageFailure
from barnabas.storage.log.appends import AppendResult
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.producers.producer_append import ProducerEntry

if TYPE_CHECKING:
    from barnabas.storage.log.log import Log

_CODECS = tuple(Codec)
_FLAGS_POSITION = ATTRIBUTES_POSITION + 1
_LENGTH_AND_CRC = Struct(">8xi5xI")
_crc32c = crc32.iscsi
_unpack_length_and_crc = _LENGTH_AND_CRC.unpack_from


class PlainRules(NamedTuple):
    """When a batch is plain, from the topic's settings."""

    max_bytes: int
    # The one codec that is kept as it comes; None: all are.
    codec: Codec | None
    compacted: bool
    before_max_ms: int
    after_max_ms: int
    decompressed_limit: int


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
    )


def append_plain(log: Log, buffer: Buffer, leader_epoch: int, now_ms: int) -> AppendResult | None:
    """The short way; None: nothing has happened, the batch needs the careful one."""
    rules = log.plain_rules
    batch = None if rules is None else plain_batch(buffer, rules, now_ms)
    if batch is None:
        return None
    _, count, _, _, max_timestamp, producer_id, producer_epoch, base_sequence = batch
    producers = log.producers
    entry = None
    in_transaction = bool(buffer[_FLAGS_POSITION] & TRANSACTIONAL_FLAG)
    if producer_id >= 0 or in_transaction:
        entry = producers.entries.get(producer_id)
        if producers.is_verifying or not _continues(
            entry, producer_epoch, base_sequence, count, in_transaction
        ):
            return None
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
            return None
    except OSError as error:
        raise StorageFailure(log.folder, "appending", error) from error
    log.end_offset = producers.end_offset = last_offset + 1
    if entry is not None:
        entry.wrote(base_sequence + count - 1, last_offset, count - 1, max_timestamp)
    return AppendResult(
        base_offset, last_offset, max_timestamp, NO_TIMESTAMP, log.log_start_offset, len(buffer)
    )


def plain_batch(buffer: Buffer, rules: PlainRules, now_ms: int) -> Plain | None:
    """What is known of the batch that fills a buffer, if it is one to be written as it is."""
    max_bytes, codec, compacted, before_max_ms, after_max_ms, _ = rules
    size = len(buffer)
    if not HEADER_SIZE < size <= max_bytes:
        return None
    length, crc = _unpack_length_and_crc(buffer)
    view = memoryview(buffer)
    if length != size - LOG_OVERHEAD or view.readonly or _crc32c(view[ATTRIBUTES_POSITION:]) != crc:
        return None
    flags = buffer[_FLAGS_POSITION]
    if codec is None and not flags & CODEC_MASK:
        data = bytes(view)
        found = inspect(_plain_head(view) if flags & TRANSACTIONAL_FLAG else data, data, HEADER_SIZE)
    else:
        payload = _payload(view, rules)
        if payload is None:
            return None
        found = inspect(_plain_head(view), payload, 0)
    is_plain, _, keyless, lowest, highest, _, _, _ = found
    if (
        not is_plain
        or lowest < now_ms - before_max_ms
        or highest > now_ms + after_max_ms
        or (keyless and compacted)
    ):
        return None
    return found


def _plain_head(view: memoryview) -> bytes:
    """As if the batch were of no transaction; whether it is of the right one is for `_continues` to say."""
    header = bytearray(view[:HEADER_SIZE])
    if header[_FLAGS_POSITION] & TRANSACTIONAL_FLAG and not header[_FLAGS_POSITION] & CONTROL_FLAG:
        header[_FLAGS_POSITION] ^= TRANSACTIONAL_FLAG
    return bytes(header)


def _payload(view: memoryview, rules: PlainRules) -> bytes | None:
    number = view[_FLAGS_POSITION] & CODEC_MASK
    codec = _CODECS[number] if number < len(_CODECS) else None
    if codec is None or (rules.codec is not None and rules.codec is not codec):
        return None
    try:
        return decompress(codec, view[HEADER_SIZE:], rules.decompressed_limit)
    except KafkaError:
        return None


def _continues(
    entry: ProducerEntry | None, epoch: int, base_sequence: int, count: int, in_transaction: bool
) -> bool:
    """Whether a batch is the next one of a producer that the log knows, in its open transaction if in any."""
    return (
        entry is not None
        and entry.epoch == epoch
        and (entry.current_transaction_first_offset is not None) == in_transaction
        and bool(entry.batches)
        and base_sequence == entry.batches[-1].last_sequence + 1
        and base_sequence + count - 1 <= MAX_SEQUENCE
    )
