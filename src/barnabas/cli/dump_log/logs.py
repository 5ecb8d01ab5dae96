"""The dump of a .log or .checkpoint file: a line per batch and, on request, a line per record."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from barnabas.batch.legacy import OldBatch
from barnabas.batch.records import NO_SEQUENCE, Record
from barnabas.batch.view import MAGIC_POSITION, MAGIC_V2, MAX_SEQUENCE, BatchView
from barnabas.cli.dump_log.control import control_text
from barnabas.cli.dump_log.decoders import Decoder
from barnabas.cli.dump_log.faults import Faults
from barnabas.cli.dump_log.file_reader import LogReader
from barnabas.cli.framework.exits import CommandError
from barnabas.runtime.disk.disk import Disk

NO_LIMIT = 2**31 - 1
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"

_SNAPSHOT_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What to print from a log."""

    decoder: Decoder | None  # None: the content of records is not printed.
    deep: bool
    skip_record_metadata: bool
    max_bytes: int
    kafka_release: str


def base_offset_of(name: str) -> int:
    """The base offset in the name of a log file."""
    digits = name.partition(".")[0]
    if not (digits.isascii() and digits.isdecimal()):
        raise CommandError(
            f"{name}: the name of a log file starts with its base offset, but {digits!r} is not an offset"
        )
    return int(digits)


def heading(name: str) -> str:
    """The line above a log's batches."""
    if name.endswith(".log"):
        return f"Log starting offset: {base_offset_of(name)}"
    if name == BOOTSTRAP_CHECKPOINT:
        return "KRaft bootstrap snapshot"
    snapshot = _SNAPSHOT_NAME.fullmatch(name)
    if snapshot is None:
        raise CommandError(f"{name}: a snapshot is named OFFSET-EPOCH.checkpoint, with 20 and 10 digits")
    return f"Snapshot end offset: {int(snapshot[1])}, epoch: {int(snapshot[2])}"


def dump_log(disk: Disk, path: str, options: LogOptions, faults: Faults, out: TextIO) -> None:
    """Print a log file.  A torn end or a wrong CRC is printed and recorded; unreadable data raises."""
    absolute = os.path.join(os.getcwd(), path)
    name = path.rpartition("/")[2]
    out.write(heading(name) + "\n")
    file = disk.open(path, writable=False)
    try:
        reader = LogReader(file, path)
        end = min(reader.size, options.max_bytes)
        previous: int | None = None
        position = 0
        for start, data in reader.batches(0, end):
            batch = open_batch(data)
            text, valid = batch_text(batch, start)
            out.write(text + "\n")
            if not valid:
                faults.mark_faulty(absolute)
            if options.deep:
                for record, crc_text in _records(batch):
                    if previous is not None and record.offset != previous + 1:
                        faults.note(faults.gaps, absolute, previous, record.offset)
                    previous = record.offset
                    out.write(record_text(batch, record, crc_text, options) + "\n")
            position = start + len(data)
        if position < end and options.max_bytes == NO_LIMIT:
            out.write(f"Found {end - position} invalid bytes at the end of {name}\n")
            faults.mark_faulty(absolute)
    finally:
        file.close()


def open_batch(data: memoryview) -> BatchView | OldBatch:
    """A view of one complete batch, in any format."""
    return BatchView(data) if data[MAGIC_POSITION] >= MAGIC_V2 else OldBatch(data)


def batch_text(batch: BatchView | OldBatch, position: int) -> tuple[str, bool]:
    """The line of a batch, and whether its CRC is right."""
    valid = batch.crc_ok()
    if isinstance(batch, BatchView):
        start = (
            f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.record_count}"
            f" baseSequence: {batch.base_sequence} lastSequence: {batch.last_sequence}"
            f" producerId: {batch.producer_id} producerEpoch: {batch.producer_epoch}"
            f" partitionLeaderEpoch: {batch.leader_epoch} isTransactional: {_bool(batch.is_transactional)}"
            f" isControl: {_bool(batch.is_control)} deleteHorizonMs: {_optional(batch.delete_horizon_ms)}"
        )
    else:
        start = f"offset: {batch.last_offset}"
    return (
        f"{start} position: {position} {_timestamp_type(batch)}: {batch.max_timestamp} size: {batch.size}"
        f" magic: {batch.magic} compresscodec: {batch.codec.config_name} crc: {batch.crc}"
        f" isvalid: {_bool(valid)}"
    ), valid


def _records(batch: BatchView | OldBatch) -> Iterator[tuple[Record, str]]:
    """Every record; in old formats each has its own CRC, which Apache Kafka prints with a brace."""
    if isinstance(batch, BatchView):
        for record in batch.records():
            yield record, ""
    else:
        for record, message in zip(batch.records(), batch.messages(), strict=True):
            yield record, f" isValid: {_bool(message.crc_ok())} crc: {message.crc}}}"


def record_text(batch: BatchView | OldBatch, record: Record, crc_text: str, options: LogOptions) -> str:
    """The line of a record."""
    line, gap = "", "| "
    if not options.skip_record_metadata:
        line, gap = gap + _metadata_text(batch, record, options.kafka_release) + crc_text, " "
    if options.decoder is not None and not batch.is_control:
        key, payload = options.decoder.texts(record)
        if key is not None:
            line += f"{gap}key: {key}"
        if payload is not None:
            line += f" payload: {payload}"
    return line


def _metadata_text(batch: BatchView | OldBatch, record: Record, kafka_release: str) -> str:
    text = (
        f"offset: {record.offset} {_timestamp_type(batch)}: {record.timestamp}"
        f" keySize: {_size(record.key)} valueSize: {_size(record.value)}"
    )
    if isinstance(batch, BatchView):
        names = ",".join(name for name, _ in record.headers)
        text += f" sequence: {_sequence(batch, record)} headerKeys: [{names}]"
        if batch.is_control:
            text += control_text(record, kafka_release)
    return text


def _sequence(batch: BatchView, record: Record) -> int:
    if batch.base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    return (batch.base_sequence + record.offset - batch.base_offset) & MAX_SEQUENCE


def _timestamp_type(batch: BatchView | OldBatch) -> str:
    return "NoTimestampType" if batch.magic == 0 else batch.timestamp_type.config_name


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
