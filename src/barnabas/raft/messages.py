"""What goes into a Raft node and what comes out of it, beside messages between nodes.

What lives here: plain data.  Requests to the node (start, append), what it wants persisted (an election
state, a batch), and what it hands on once it is so (who leads, up to where the log is committed).  What may
not: how any of it is carried out.
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
    """Lead no more in this epoch; without effect if this node does not."""

    epoch: int


@dataclass(frozen=True, slots=True)
class DataRecords:
    """Records of one decision, as bytes: one batch, all or nothing."""

    values: tuple[bytes, ...]
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Append:
    """Append for the leader of this epoch; refused (NotLeader) if that is no longer this node."""

    epoch: int
    records: DataRecords


@dataclass(frozen=True, slots=True)
class NotLeader:
    """The reply to an append that this node may not make."""

    epoch: int


# ----------------------------------------------------------------------------------- what is persisted


@dataclass(frozen=True, slots=True)
class ControlRecords:
    """Records of the quorum itself, one batch; stamped when they are written."""

    messages: tuple[QuorumMessage, ...]


@dataclass(frozen=True, slots=True)
class StoreElection:
    """Replace the file `quorum-state`, in the form that this kraft.version has."""

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

# ------------------------------------------------------------------------------------ what is handed on


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """Who leads in this epoch, as far as this node knows; NOBODY while an election is on."""

    epoch: int
    leader_id: int


@dataclass(frozen=True, slots=True)
class Committed:
    """All below this offset is decided for ever."""

    high_watermark: int
