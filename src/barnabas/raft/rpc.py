"""Messages between the nodes of a quorum, and the requests that change it: plain data.

Their names are those of the Kafka protocol; translating them to bytes belongs in the broker.  Every response
says which leader its sender knows (`leader`), so that any response can end a node's ignorance or its term.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from barnabas.base.errors import ErrorCode
from barnabas.base.immutable import immutable
from barnabas.batch.control import QuorumMessage
from barnabas.raft.log import OffsetAndEpoch
from barnabas.raft.quorum_state_file import NOBODY
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voters import ReplicaKey, Voter, VoterEndpoint

UNKNOWN_HIGH_WATERMARK = -1
# Before KIP-1166 a follower did not report its high watermark: it is then taken to be up to date.
HIGH_WATERMARK_NOT_REPORTED = (1 << 63) - 1


@immutable
class LeaderAndEpoch:
    """The leader of an epoch as far as the sender knows, and its endpoints if it knows them."""

    epoch: int
    leader_id: int = NOBODY
    endpoints: tuple[VoterEndpoint, ...] = ()


# ------------------------------------------------------------------------------------------- elections


@immutable
class VoteRequest:
    """A candidate asks for a vote; with `pre_vote`, a prospective candidate asks whether it would get one."""

    candidate: ReplicaKey
    epoch: int
    last: OffsetAndEpoch
    pre_vote: bool = False
    # The voter that the request is meant for; None before KIP-853.
    voter: ReplicaKey | None = None

    def __repr__(self) -> str:
        kind = "PreVote" if self.pre_vote else "Vote"
        return f"{kind}({self.candidate.id} in {self.epoch} at {self.last.offset}/{self.last.epoch})"


@immutable
class VoteResponse:
    leader: LeaderAndEpoch
    granted: bool
    error: ErrorCode = ErrorCode.NONE

    def __repr__(self) -> str:
        leader = f"{self.leader.leader_id} in {self.leader.epoch}"
        return f"Voted({leader}, {self.error.name}, {'granted' if self.granted else 'rejected'})"


@immutable
class BeginQuorumEpochRequest:
    """The elected leader announces itself to a voter."""

    leader: LeaderAndEpoch
    voter: ReplicaKey | None = None


@immutable
class BeginQuorumEpochResponse:
    leader: LeaderAndEpoch
    error: ErrorCode = ErrorCode.NONE


@immutable
class EndQuorumEpochRequest:
    """A leader resigns; the voters stand for election in this order."""

    leader: LeaderAndEpoch
    preferred_candidates: tuple[ReplicaKey, ...] = ()


@immutable
class EndQuorumEpochResponse:
    leader: LeaderAndEpoch
    error: ErrorCode = ErrorCode.NONE


# ----------------------------------------------------------------------------------------- replication


@immutable
class FetchedBatch:
    """One batch of the leader's log.  `control` has its messages if it is a control batch; None: unknown."""

    base_offset: int
    end_offset: int
    epoch: int
    data: object
    control: tuple[QuorumMessage | None, ...] = ()


@immutable
class FetchRequest:
    """A follower's log ends at `offset`, after a record of `last_epoch`; everything below it is durable."""

    replica: ReplicaKey
    epoch: int
    offset: int
    last_epoch: int
    max_wait_ns: int = 0
    high_watermark: int = HIGH_WATERMARK_NOT_REPORTED

    def __repr__(self) -> str:
        """Short: most messages of a trace are fetches."""
        position = f"{self.offset}/{self.last_epoch}, high watermark {self.high_watermark}"
        return f"Fetch({self.replica.id} in {self.epoch} at {position})"


@immutable
class FetchResponse:
    """Records from `read_from` on, which the sender's log adds, or where the follower's log differs."""

    leader: LeaderAndEpoch
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = UNKNOWN_HIGH_WATERMARK
    diverging: OffsetAndEpoch | None = None
    snapshot: SnapshotId | None = None
    read_from: int | None = None
    # What the log has from `read_from` on, as it is sent; `batches` is how it is received.
    records: object = None
    batches: tuple[FetchedBatch, ...] = ()

    def __repr__(self) -> str:
        found = self.diverging or self.snapshot or [batch.base_offset for batch in self.batches]
        leader = f"{self.leader.leader_id} in {self.leader.epoch}"
        return f"Fetched({leader}, {self.error.name}, high watermark {self.high_watermark}, {found})"


@immutable
class FetchSnapshotRequest:
    replica: ReplicaKey
    epoch: int
    snapshot: SnapshotId
    position: int


@immutable
class FetchSnapshotResponse:
    """Bytes of a snapshot from `position` on, which the sender's files add."""

    leader: LeaderAndEpoch
    error: ErrorCode = ErrorCode.NONE
    snapshot: SnapshotId | None = None
    position: int = 0
    size: int = 0
    data: bytes = b""


# --------------------------------------------------------------------------------- voters (KIP-853)


@immutable
class AddVoterRequest:
    voter: Voter
    timeout_ns: int
    ack_when_committed: bool = True


@immutable
class RemoveVoterRequest:
    voter: ReplicaKey


@immutable
class UpdateVoterRequest:
    """A voter reports its present endpoints and supported versions to the leader."""

    epoch: int
    voter: Voter


@immutable
class VoterChangeResponse:
    leader: LeaderAndEpoch
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@immutable
class SupportedVersionsRequest:
    """The leader asks a new voter for its range of `kraft.version` (ApiVersions)."""

    voter: Voter


@immutable
class SupportedVersionsResponse:
    lowest: int = 0
    highest: int = 0
    error: ErrorCode = ErrorCode.NONE


# -------------------------------------------------------------------------------------------- envelopes

PeerRequest: TypeAlias = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | UpdateVoterRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | SupportedVersionsRequest
)
PeerResponse: TypeAlias = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | VoterChangeResponse
    | SupportedVersionsResponse
)


@immutable
class OutboundRequest:
    """The message of a `Send` effect; the response comes back with its correlation id."""

    correlation_id: int
    request: PeerRequest

    def __repr__(self) -> str:
        return f"#{self.correlation_id} {self.request!r}"


@immutable
class InboundResponse:
    """The message of a `Received` event; None if the request failed or its connection was closed."""

    correlation_id: int
    response: PeerResponse | None = field(default=None)

    def __repr__(self) -> str:
        return f"#{self.correlation_id} {self.response!r}"
