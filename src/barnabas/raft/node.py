"""The Raft node: a step machine that replicates one log to a majority of voters (KIP-595).

Contains elections, appends by the leader, and the high watermark.  Bytes, files and timestamps belong in the
broker; the meaning of the records belongs in `metadata` and `controller`.

Events in, effects out (base.effects).  A vote counts only after it is persisted, and the leader's own append
only after it is persisted; later effects queue behind both in the executor.  A quorum of one voter elects
itself immediately, in a new epoch at every start, as in Apache Kafka; a stored vote for itself remains valid
for its epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.base.effects import Apply, Effect, Event, Persist, Persisted, Reply, Requested
from barnabas.batch.control import QuorumMessage
from barnabas.protocol.records.control import KRaftVersionRecord, LeaderChangeMessage
from barnabas.raft.messages import (
    Append,
    AppendBatch,
    Committed,
    ControlRecords,
    DataRecords,
    LeaderChanged,
    NotLeader,
    Resign,
    Start,
    StoreElection,
)
from barnabas.raft.progress import Progress
from barnabas.raft.quorum_state import NOBODY, ElectionState
from barnabas.raft.roles import Candidate, Leader, Role, Unattached
from barnabas.raft.voters import DYNAMIC_QUORUM, Voter, Voters

# The voters were set when the directory was formatted; no record in the log contains them yet.
VOTERS_NOT_IN_LOG = -1


@dataclass(frozen=True, slots=True)
class LoadedQuorum:
    """The state that a node loads from its directory at startup."""

    election: ElectionState
    voters: Voters
    kraft_version: int
    voters_offset: int
    log_end_offset: int
    log_epoch: int


@dataclass(frozen=True, slots=True)
class _VotePersisted:
    epoch: int


@dataclass(frozen=True, slots=True)
class _LogPersisted:
    epoch: int
    end_offset: int


class RaftNode:
    """One voter.  `me` is how it describes itself to the other voters."""

    def __init__(self, me: Voter, loaded: LoadedQuorum) -> None:
        self.me = me
        self.voters = loaded.voters
        self.kraft_version = loaded.kraft_version
        self.end_offset = loaded.log_end_offset
        self._voters_offset = loaded.voters_offset
        self._stored_election = loaded.election
        # The log may be ahead of the file: it was written by a leader of an epoch this node never voted in.
        self.role: Role = Unattached(max(loaded.election.epoch, loaded.log_epoch))

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def leader_epoch(self) -> int | None:
        """The epoch that this node leads; None if it is not the leader."""
        return self.role.epoch if isinstance(self.role, Leader) else None

    @property
    def leader_id(self) -> int:
        return self.me.id if self.is_leader else NOBODY

    @property
    def high_watermark(self) -> int | None:
        """The end of the committed log; None until this leader knows it."""
        return self.role.progress.high_watermark if isinstance(self.role, Leader) else None

    def step(self, event: Event, now_ns: int, /) -> Sequence[Effect]:
        """Process one event; returns the resulting effects in order."""
        match event:
            case Requested(_, Start()):
                return self._start()
            case Requested(_, Resign(epoch)):
                return self._resign(epoch)
            case Requested(reply_to, Append() as append):
                if not isinstance(self.role, Leader) or append.epoch != self.role.epoch:
                    return [Reply(reply_to, NotLeader(self.role.epoch))]
                return [self._append(self.role, append.records, len(append.records.values))]
            case Persisted(_VotePersisted(epoch)):
                return self._vote_persisted(epoch)
            case Persisted(_LogPersisted(epoch, end_offset)):
                return self._log_persisted(epoch, end_offset)
        return []

    # Elections

    def _start(self) -> list[Effect]:
        if not self.voters.is_only(self.me.id, self.me.directory_id):
            return []
        stored = self._stored_election
        vote_pending = stored.epoch == self.role.epoch and stored.leader_id == NOBODY
        if vote_pending and stored.voted_for(self.me.id, self.me.directory_id):
            return self._become_candidate(stored.epoch)
        return self._become_candidate(self.role.epoch + 1)

    def _become_candidate(self, epoch: int) -> list[Effect]:
        self.role = Candidate(epoch)
        vote = ElectionState(epoch, NOBODY, self.me.id, self.me.directory_id)
        return [self._store_election(vote, _VotePersisted(epoch)), Apply(LeaderChanged(epoch, NOBODY))]

    def _store_election(self, state: ElectionState, token: _VotePersisted | None = None) -> Persist:
        return Persist(StoreElection(state, self.voters.ids, self.kraft_version), token)

    def _vote_persisted(self, epoch: int) -> list[Effect]:
        role = self.role
        if not isinstance(role, Candidate) or role.epoch != epoch:
            return []
        role.granted.add(self.me.id)
        return self._become_leader(role) if len(role.granted) >= self.voters.majority else []

    def _become_leader(self, candidate: Candidate) -> list[Effect]:
        epoch = candidate.epoch
        # The vote is spent: a later candidacy needs a new epoch.
        self._stored_election = ElectionState(epoch, self.me.id)
        leader = self.role = Leader(epoch, Progress(self.voters, self.end_offset))
        messages = self._leader_change_messages(candidate)
        return [
            self._store_election(ElectionState(epoch, self.me.id)),
            self._append(leader, ControlRecords(tuple(messages)), len(messages)),
            Apply(LeaderChanged(epoch, self.me.id)),
        ]

    def _leader_change_messages(self, candidate: Candidate) -> list[QuorumMessage]:
        """The leader and its votes, plus the voter set if the log lacks it or has an outdated one."""
        voter = LeaderChangeMessage.Voter
        messages: list[QuorumMessage] = [
            LeaderChangeMessage(
                version=0,
                leader_id=self.me.id,
                voters=[voter(voter_id=voter_id) for voter_id in self.voters.ids],
                granting_voters=[voter(voter_id=voter_id) for voter_id in sorted(candidate.granted)],
            )
        ]
        if self.kraft_version >= DYNAMIC_QUORUM:
            changed = self.voters.get(self.me.id) != self.me
            if changed or self._voters_offset == VOTERS_NOT_IN_LOG:
                self.voters = self.voters.with_voter(self.me)
                messages.append(KRaftVersionRecord(version=0, kraft_version=self.kraft_version))
                messages.append(self.voters.to_record())
                self._voters_offset = self.end_offset + len(messages) - 1
        return messages

    def _resign(self, epoch: int) -> list[Effect]:
        """Uncommitted records stay in the log; the first record of the next leader commits them."""
        if self.leader_epoch != epoch:
            return []
        self.role = Unattached(epoch)
        return [Apply(LeaderChanged(epoch, NOBODY))]

    # The log

    def _append(self, leader: Leader, records: DataRecords | ControlRecords, count: int) -> Persist:
        batch = AppendBatch(self.end_offset, leader.epoch, records)
        self.end_offset += count
        return Persist(batch, _LogPersisted(leader.epoch, self.end_offset))

    def _log_persisted(self, epoch: int, end_offset: int) -> list[Effect]:
        role = self.role
        if not isinstance(role, Leader) or role.epoch != epoch:
            return []
        if not role.progress.advance(self.me.id, end_offset):
            return []
        assert role.progress.high_watermark is not None, "advance() has just set it"
        return [Apply(Committed(role.progress.high_watermark))]
