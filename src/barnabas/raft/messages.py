"""Inputs and outputs of a Raft node other than messages between nodes: plain data only.

Requests to the node (start, append), what it persists (election state, batches), and what it reports once
that is persisted (the leader, the high watermark).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from barnabas.batch.control import QuorumMessage
from barnabas.raft.quorum_state import ElectionState

# ------------------------------------------------------------------------------------------- requests


@dataclass(frozen=True, slots=True)
class Start:
    """The node's process has started; its log and state are loaded."""


@dataclass(frozen=True, slots=True)
class Resign:
    """Give up leadership of this epoch; ignored if this node does not lead it."""

    epoch: int


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


Entry: TypeAlias = StoreElection | AppendBatch

# ------------------------------------------------------------------------------------------- reported


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The leader of this epoch as far as this node knows; NOBODY during an election."""

    epoch: int
    leader_id: int


@dataclass(frozen=True, slots=True)
class Committed:
    """Every record below this offset is committed."""

    high_watermark: int
