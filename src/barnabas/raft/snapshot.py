"""Snapshots of the metadata log: their names, and their content as batches.

What lives here: `OFFSET-EPOCH.checkpoint`, the control records that open and close one, and the split into
batches, all as Apache Kafka writes them (KIP-630, KIP-853).  What may not: files, and what the records mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from barnabas.batch.build import build
from barnabas.batch.control import QuorumMessage, build_quorum_batch
from barnabas.batch.records import Record
from barnabas.protocol.records.control import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from barnabas.raft.voters import DYNAMIC_QUORUM, Voters

# A batch of metadata records is no larger than this, in a snapshot as in the log.
MAX_BATCH_BYTES = 8 * 1024 * 1024
# Values of one batch of a snapshot: small enough to be read and checked piece by piece.
BATCH_VALUE_BYTES = 512 * 1024
_NAME = re.compile(r"(\d{20})-(\d{10})(?:-[^.]*)?\.checkpoint(\.part|\.deleted)?", re.ASCII)


class SnapshotId(NamedTuple):
    """A snapshot holds all below `offset`; `epoch` is that of the last record in it."""

    offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.offset:020d}-{self.epoch:010d}.checkpoint"

    @property
    def partial_name(self) -> str:
        """While it is being written."""
        return f"{self.file_name}.part"

    @property
    def deleted_name(self) -> str:
        """When it is no longer needed."""
        return f"{self.file_name}.deleted"


class SnapshotState(Enum):
    """What a file's name says about it."""

    WHOLE = ""
    PARTIAL = ".part"
    DELETED = ".deleted"


# The voters that a dynamic quorum was formatted with: no log lies before it.
FIRST_SNAPSHOT = SnapshotId(0, 0)


def parse_snapshot_name(name: str) -> tuple[SnapshotId, SnapshotState] | None:
    """None if it is not the name of a snapshot."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return SnapshotId(int(match[1]), int(match[2])), SnapshotState(match[3] or "")


def snapshot_batches(
    values: Iterable[bytes],
    snapshot: SnapshotId,
    *,
    last_timestamp_ms: int,
    now_ms: int,
    kraft_version: int,
    voters: Voters,
) -> Iterator[bytearray]:
    """The content of a snapshot; the voters stand in it once the log has them, too."""
    start: list[QuorumMessage] = [
        SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_timestamp_ms)
    ]
    if kraft_version >= DYNAMIC_QUORUM:
        start.append(KRaftVersionRecord(version=0, kraft_version=kraft_version))
        start.append(voters.to_record())
    epoch = snapshot.epoch
    yield build_quorum_batch(start, timestamp=now_ms, leader_epoch=epoch)
    offset = len(start)
    for run in _runs(values):
        yield build(
            [Record(offset + number, now_ms, None, value) for number, value in enumerate(run)],
            leader_epoch=epoch,
        )
        offset += len(run)
    end = [SnapshotFooterRecord(version=0)]
    yield build_quorum_batch(end, timestamp=now_ms, base_offset=offset, leader_epoch=epoch)


def _runs(values: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Values that go into one batch together."""
    run: list[bytes] = []
    size = 0
    for value in values:
        if run and size + len(value) > BATCH_VALUE_BYTES:
            yield run
            run, size = [], 0
        run.append(value)
        size += len(value)
    if run:
        yield run
