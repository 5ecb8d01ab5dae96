"""Validates batches before an append, assigns their offsets, and collects their headers.

Contains the validation of leader and follower appends; writing belongs in checked_append.py, producer state
in storage/producers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.check import NOT_EXAMINED, AppendOrigin, CheckRules, Examination, check_batch
from barnabas.batch.compression import Codec
from barnabas.batch.records import NO_TIMESTAMP, TimestampType
from barnabas.batch.view import BatchHeader, BatchView, CorruptBatch, batch_size, batches, patch_offsets
from barnabas.runtime.disk.disk import Buffer
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.segment.batch_headers import crc_ok, header_at

logger = logging.getLogger(__name__)

_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class AppendResult(NamedTuple):
    """The offsets of an append.  A duplicate returns the offsets of the first append."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    bytes_appended: int
    duplicate: bool = False

    def followed_by(self, later: AppendResult) -> AppendResult:
        """The result of this append and a later one together."""
        return self._replace(
            last_offset=later.last_offset,
            max_timestamp=max(self.max_timestamp, later.max_timestamp),
            bytes_appended=self.bytes_appended + later.bytes_appended,
        )


class UnexpectedAppendOffset(KafkaError):
    """The batches of a follower append start before the log end offset."""

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class GapNotNoted(KafkaError):
    """The batches of a follower append have the log's first gap, which must be checkpointed before it."""

    def __init__(self, log_name: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, f"the first gap of {log_name} is not noted yet")


@dataclass(frozen=True, slots=True)
class Prepared:
    """Validated batches with their final offsets."""

    data: Buffer
    headers: list[BatchHeader]
    log_append_time_ms: int
    first_offset: int
    last_offset: int
    max_timestamp: int

    def end_within(self, max_bytes: int) -> int:
        """Where the batches that fit into this many bytes end; the first one counts as fitting."""
        if len(self.data) <= max_bytes:
            return len(self.data)
        fitting = [header.end for header in self.headers if header.end <= max_bytes]
        return fitting[-1] if fitting else self.headers[0].end


def rules_of(options: LogOptions) -> CheckRules:
    """The rules that the topic's configuration sets for a client's batch."""
    codec = _CODECS.get(options.compression_type)  # "producer" keeps the client's codec
    levels = {
        Codec.GZIP: options.compression_gzip_level,
        Codec.LZ4: options.compression_lz4_level,
        Codec.ZSTD: options.compression_zstd_level,
    }
    stamped = options.message_timestamp_type == "LogAppendTime"
    return CheckRules(
        compression=codec,
        compression_level=levels.get(codec) if codec is not None else None,
        compacted=options.cleanup_compact,
        timestamp_type=TimestampType.LOG_APPEND_TIME if stamped else TimestampType.CREATE_TIME,
        timestamp_before_max_ms=options.message_timestamp_before_max_ms,
        timestamp_after_max_ms=options.message_timestamp_after_max_ms,
        max_message_bytes=options.max_message_bytes,
    )


def prepare_leader(
    buffer: Buffer,
    leader_epoch: int,
    first_offset: int,
    origin: AppendOrigin,
    rules: CheckRules,
    now_ms: int,
    known: Examination = NOT_EXAMINED,
) -> Prepared | None:
    """Validate the batches and assign the next offsets, in place in the caller's buffer where possible.

    `known` is what an earlier examination of the one batch in the buffer found.
    """
    headers: list[BatchHeader] = []
    parts: list[bytearray | memoryview] = []
    position = 0
    for view in _views(buffer):
        header = view
        if not known.is_plain:
            header = check_batch(view, rules, now_ms=now_ms, origin=origin, known=known).view
        part = _writable(header)
        patch_offsets(part, 0, first_offset, leader_epoch)
        header.place(position, first_offset, leader_epoch)
        first_offset = header.last_offset + 1
        position += header.size
        headers.append(header)
        parts.append(part)
    if not headers:
        return None
    stamped = rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    return _prepared(
        parts[0] if len(parts) == 1 else b"".join(parts), headers, now_ms if stamped else NO_TIMESTAMP
    )


def _views(buffer: Buffer) -> Iterable[BatchView]:
    """A produce request carries exactly one batch per partition."""
    return (BatchView(buffer),) if batch_size(buffer, 0) == len(buffer) else batches(buffer)


def _writable(view: BatchView) -> bytearray | memoryview:
    if view.start == 0 and isinstance(view.buffer, bytearray) and view.size == len(view.buffer):
        return view.buffer
    part = memoryview(view.buffer)[view.start : view.end]
    return bytearray(part) if part.readonly else part


def _prepared(data: Buffer, headers: list[BatchHeader], log_append_time_ms: int) -> Prepared:
    if len(headers) == 1:
        max_timestamp = headers[0].max_timestamp
    else:
        max_timestamp = max(header.max_timestamp for header in headers)
    return Prepared(
        data, headers, log_append_time_ms, headers[0].base_offset, headers[-1].last_offset, max_timestamp
    )


def prepare_as_is(
    buffer: Buffer,
    leader_epoch: int,
    end_offset: int,
    origin: AppendOrigin,
    log_name: str,
    max_message_bytes: int | None,
) -> Prepared | None:
    """Validate batches that already have offsets: fetched by a follower, or written by the Raft leader."""
    headers: list[BatchHeader] = []
    start, last_offset = 0, -1
    while (header := header_at(buffer, start, start)) is not None and header.end <= len(buffer):
        if origin is AppendOrigin.RAFT_LEADER and header.leader_epoch != leader_epoch:
            raise CorruptBatch(
                f"the batch's leader epoch is {header.leader_epoch}, {leader_epoch} is appending",
                ErrorCode.INVALID_RECORD,
            )
        if origin is AppendOrigin.REPLICATION and header.leader_epoch > leader_epoch:
            # The leader changed during the fetch: the new leader's batches are fetched again.
            logger.info("%s: skipped %r: its epoch is later than %d", log_name, header, leader_epoch)
            break
        if max_message_bytes is not None and header.size > max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {header.size} bytes for {log_name} exceeds"
                f" max.message.bytes={max_message_bytes}",
            )
        if not crc_ok(header, buffer, start):
            raise CorruptBatch(
                f"Record is corrupt (stored crc = {header.crc}) in topic partition {log_name}."
            )
        if header.base_offset <= last_offset:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Out of order offsets found in append to {log_name}:"
                f" {header.base_offset} after {last_offset}",
            )
        last_offset = header.last_offset
        headers.append(header)
        start = header.end
    if not headers:
        return None
    if headers[0].base_offset < end_offset:
        raise UnexpectedAppendOffset(
            f"Unexpected offset in append to {log_name}: {headers[0].base_offset} is less than the next"
            f" offset {end_offset}",
            headers[0].base_offset,
            last_offset,
        )
    data = buffer if start == len(buffer) else memoryview(buffer)[:start]
    return _prepared(data, headers, NO_TIMESTAMP)
