"""Snapshots of the metadata log: file names, and their content as batches (KIP-630, KIP-853).

The `OFFSET-EPOCH.checkpoint` names, the control records at the start and end, and the split into batches are
those of Apache Kafka.  File access belongs in the broker; the records' meaning in `metadata`.
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

# The maximum size of a batch of metadata records, in a snapshot and in the log.
MAX_BATCH_BYTES = 8 * 1024 * 1024
# The maximum total size of the values in one snapshot batch: small enough to read and check incrementally.
BATCH_VALUE_BYTES = 512 * 1024
_NAME = re.compile(r"(\d{20})-(\d{10})(?:-[^.]*)?\.checkpoint(\.part|\.deleted)?", re.ASCII)


class SnapshotId(NamedTuple):
    """A snapshot contains all records below `offset`; `epoch` is that of its last record."""

    offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.offset:020d}-{self.epoch:010d}.checkpoint"

    @property
    def partial_name(self) -> str:
        """The name while the snapshot is being written."""
        return f"{self.file_name}.part"

    @property
    def deleted_name(self) -> str:
        """The name once the snapshot is obsolete."""
        return f"{self.file_name}.deleted"


class SnapshotState(Enum):
    """The state of a snapshot file, encoded in its name."""

    WHOLE = ""
    PARTIAL = ".part"
    DELETED = ".deleted"


# The snapshot with the initial voters of a dynamic quorum: no log precedes it.
FIRST_SNAPSHOT = SnapshotId(0, 0)


def parse_snapshot_name(name: str) -> tuple[SnapshotId, SnapshotState] | None:
    """Returns None if this is not the name of a snapshot."""
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
    """The content of a snapshot; includes the voters if the quorum is dynamic."""
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
    """Split the values into batches."""
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
