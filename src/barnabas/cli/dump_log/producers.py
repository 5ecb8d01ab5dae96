"""The dump of a producer snapshot: a line per producer."""

from __future__ import annotations

from contextlib import closing
from typing import TextIO

from barnabas.batch.view import MAX_SEQUENCE
from barnabas.cli.framework.exits import CommandError
from barnabas.runtime.disk.disk import Disk
from barnabas.storage.producers.producer_snapshot import (
    MAX_SNAPSHOT_BYTES,
    DamagedSnapshot,
    SnapshotEntry,
    decode_snapshot,
)


def dump_producer_snapshot(disk: Disk, path: str, out: TextIO) -> None:
    """Print a .snapshot file."""
    with closing(disk.open(path, writable=False)) as file:
        if file.size > MAX_SNAPSHOT_BYTES:
            raise CommandError(f"{path}: {file.size} bytes are too many for a producer snapshot")
        try:
            entries = decode_snapshot(file.read_at(0, file.size))
        except DamagedSnapshot as error:
            raise CommandError(f"{path}: the snapshot is corrupt: {error}") from error
    for entry in entries:
        out.write(producer_text(entry) + "\n")


def producer_text(entry: SnapshotEntry) -> str:
    """The line of a producer; one without a batch in this log ends after the timestamp."""
    first_offset = entry.current_transaction_first_offset
    text = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: "
        f"{f'OptionalLong[{first_offset}]' if first_offset >= 0 else 'OptionalLong.empty'} "
        f"lastTimestamp: {entry.timestamp} "
    )
    if entry.last_offset < 0:
        return text
    first_sequence = (entry.last_sequence - entry.offset_delta) & MAX_SEQUENCE
    return text + (
        f"firstSequence: {first_sequence} lastSequence: {entry.last_sequence} "
        f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
    )
