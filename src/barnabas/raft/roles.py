"""The roles of a node in its quorum: plain data, replaced on every transition (see quorum.py).

    Unattached <-> Prospective -> Candidate -> Leader -> Resigned
         |             ^
         +-> Follower <+

An observer is an unattached node or a follower that is not a voter.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

from barnabas.raft.progress import Progress
from barnabas.raft.quorum_state_file import NOBODY
from barnabas.raft.rpc import AddVoterRequest, FetchRequest, LeaderAndEpoch
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voters import ReplicaKey, Voter, VoterEndpoint


@dataclass(slots=True)
class Unattached:
    """Knows the epoch, perhaps its own vote in it, but not where the leader is."""

    epoch: int
    deadline_ns: int
    leader_id: int = NOBODY
    voted: ReplicaKey | None = None


@dataclass(slots=True)
class Votes:
    """The votes that a candidate has received."""

    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Prospective:
    """Asks whether it would be elected, without a new epoch: being cut off disturbs nobody (KIP-996).

    It keeps what it knew of the leader, to which it returns if the others still follow it.
    """

    epoch: int
    deadline_ns: int
    leader_id: int = NOBODY
    leader_endpoints: tuple[VoterEndpoint, ...] = ()
    voted: ReplicaKey | None = None
    votes: Votes = field(default_factory=Votes)


@dataclass(slots=True)
class Candidate:
    """Requests votes in a new epoch; has voted for itself."""

    epoch: int
    deadline_ns: int
    votes: Votes = field(default_factory=Votes)


@dataclass(slots=True)
class SnapshotFetch:
    """A snapshot that a follower is fetching; its bytes below `position` are written."""

    snapshot: SnapshotId
    position: int = 0
    # All bytes are written, and the files have not reported yet that the snapshot replaced the log.
    is_installing: bool = False


@dataclass(slots=True)
class Follower:
    """Fetches from the leader; a voter stands for election when no response arrives until the deadline."""

    epoch: int
    deadline_ns: int
    leader_id: int
    leader_endpoints: tuple[VoterEndpoint, ...]
    voted: ReplicaKey | None = None
    # A follower that never reached its leader supports other candidates (KIP-996).
    has_fetched: bool = False
    fetching: SnapshotFetch | None = None
    # Snapshots of this leader that were damaged, and when to fetch the next time.
    damaged_snapshots: int = 0
    fetch_after_ns: int = 0
    # When a voter next describes itself to the leader, or an observer next asks to be a voter.
    update_voter_ns: int = 0
    # The leader has responded to UpdateRaftVoter in this epoch.
    has_updated_leader: bool = False


@dataclass(slots=True)
class DelayedFetch:
    """A fetch that waits for records, or for a newer high watermark."""

    reply_to: Hashable
    request: FetchRequest
    deadline_ns: int


@dataclass(slots=True)
class VoterChange:
    """A change of the voters that is under way (KIP-853): there is at most one."""

    reply_to: Hashable
    deadline_ns: int
    # The new voter, while its supported versions are not known.
    adding: AddVoterRequest | None = None
    # The offset of the new voters record.
    offset: int | None = None


@dataclass(slots=True)
class Leader:
    """Elected by a majority; the only node that appends in this epoch."""

    epoch: int
    progress: Progress
    endpoints: tuple[VoterEndpoint, ...]
    check_quorum_ns: int
    begin_epoch_ns: int
    # Voters that have fetched since the last majority did.
    fetched: set[int] = field(default_factory=set)
    # Voters that have not been reached in this epoch.
    unacknowledged: set[int] = field(default_factory=set)
    delayed_fetches: list[DelayedFetch] = field(default_factory=list)
    change: VoterChange | None = None
    # How static voters describe themselves: needed to move them into the log.
    reported: dict[int, Voter] = field(default_factory=dict)
    resigns: bool = False


@dataclass(slots=True)
class Resigned:
    """Was the leader of this epoch; asks the voters to elect another one, and cannot lead it again."""

    epoch: int
    deadline_ns: int
    preferred_candidates: tuple[ReplicaKey, ...]
    unacknowledged: set[int]
    endpoints: tuple[VoterEndpoint, ...] = ()


Role: TypeAlias = Unattached | Prospective | Candidate | Follower | Leader | Resigned


def leader_of(role: Role, own_id: int) -> LeaderAndEpoch:
    """The leader that a node in this role knows."""
    match role:
        case Leader(epoch=epoch, endpoints=endpoints):
            return LeaderAndEpoch(epoch, own_id, endpoints)
        case Follower(epoch=epoch, leader_id=leader_id, leader_endpoints=endpoints):
            return LeaderAndEpoch(epoch, leader_id, endpoints)
        case Prospective(epoch=epoch, leader_id=leader_id, leader_endpoints=endpoints):
            return LeaderAndEpoch(epoch, leader_id, endpoints)
        case Unattached(epoch=epoch, leader_id=leader_id):
            return LeaderAndEpoch(epoch, leader_id)
    return LeaderAndEpoch(role.epoch)
