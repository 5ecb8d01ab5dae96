"""Inputs and outputs of a Raft node other than messages between nodes (rpc.py): plain data only.

Requests to the node (start, append), what it persists (election state, batches, snapshots), and what it
reports once that is persisted (the leader, the high watermark).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from barnabas.batch.control import QuorumMessage
from barnabas.raft.quorum_state_file import ElectionState
from barnabas.raft.rpc import FetchedBatch
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voters import VoterEndpoint, Voters

# ------------------------------------------------------------------------------------------- requests


@dataclass(frozen=True, slots=True)
class Start:
    """The node's process has started; its log and state are loaded."""


@dataclass(frozen=True, slots=True)
class Resign:
    """Give up leadership of this epoch; ignored if this node does not lead it."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The node's process is about to stop: a leader resigns, so that another is elected at once."""


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """This node has written a snapshot of its own; the log now starts at `log_start_offset`."""

    snapshot: SnapshotId
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class SnapshotInstalled:
    """The outcome of InstallSnapshot; `voters` is None if the fetched snapshot was damaged."""

    snapshot: SnapshotId
    voters: Voters | None
    kraft_version: int = 0


@dataclass(frozen=True, slots=True)
class DataRecords:
    """The records of one decision, encoded: they form one batch, which is written atomically."""

    values: tuple[bytes, ...]
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Append:
    """Append as the leader of this epoch; refused (NotLeader) if this node no longer leads it."""

    epoch: int
    records: DataRecords


@dataclass(frozen=True, slots=True)
class UpgradeKraftVersion:
    """Upgrade `kraft.version` as the leader of this epoch, which has checked that it is possible."""

    epoch: int
    kraft_version: int


@dataclass(frozen=True, slots=True)
class NotLeader:
    """The reply to an append if this node is not the leader."""

    epoch: int


# ------------------------------------------------------------------------------------------ persisted


@dataclass(frozen=True, slots=True)
class ControlRecords:
    """Records of the quorum itself, in one batch; timestamped when they are written."""

    messages: tuple[QuorumMessage, ...]


@dataclass(frozen=True, slots=True)
class StoreElection:
    """Replace the `quorum-state` file, in the format of this kraft.version."""

    state: ElectionState
    voter_ids: tuple[int, ...]
    kraft_version: int


@dataclass(frozen=True, slots=True)
class AppendBatch:
    """Write one batch at the end of the log, at this offset and in this epoch."""

    base_offset: int
    epoch: int
    records: DataRecords | ControlRecords


@dataclass(frozen=True, slots=True)
class AppendFetched:
    """Write a batch of the leader, byte for byte, at the end of the log."""

    batch: FetchedBatch


@dataclass(frozen=True, slots=True)
class TruncateLog:
    """Remove the records from this offset on."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class WriteSnapshotChunk:
    """Write bytes of a snapshot that is being fetched; position 0 begins it again."""

    snapshot: SnapshotId
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """Check the fetched snapshot and replace the log by it; `SnapshotInstalled` follows."""

    snapshot: SnapshotId


Entry: TypeAlias = (
    StoreElection | AppendBatch | AppendFetched | TruncateLog | WriteSnapshotChunk | InstallSnapshot
)

# ------------------------------------------------------------------------------------------- reported


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The leader of this epoch as far as this node knows; NOBODY during an election."""

    epoch: int
    leader_id: int
    endpoints: tuple[VoterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class HighWatermark:
    """Every record below this offset is committed."""

    offset: int
