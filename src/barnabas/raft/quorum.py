"""The state of one node, which all its rules share, and its transitions from role to role.

Contains what a transition persists, reports and resets.  When a node changes its role belongs in
rules/.

A transition to a new epoch, a vote and a leader are persisted before anything that depends on them leaves the
node: effects wait for the Persist before them (base.effects).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from barnabas.base.effects import Apply, Effect, Persist, Reply, Send
from barnabas.base.errors import ErrorCode
from barnabas.raft.log import RaftLog
from barnabas.raft.messages import HighWatermark, LeaderChanged, StoreElection
from barnabas.raft.options import QuorumOptions
from barnabas.raft.progress import Progress
from barnabas.raft.quorum_state_file import NOBODY, ElectionState
from barnabas.raft.request_manager import RequestManager
from barnabas.raft.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    SnapshotFetch,
    Unattached,
    Votes,
    leader_of,
)
from barnabas.raft.rpc import FetchResponse, LeaderAndEpoch, OutboundRequest, PeerRequest, VoterChangeResponse
from barnabas.raft.voter_history import VoterHistory
from barnabas.raft.voters import ReplicaKey, Voter, VoterEndpoint, Voters


class RandomSource(Protocol):
    """The part of runtime.random.Random that elections need."""

    def integer(self, low: int, high: int) -> int: ...


class CommittedLogLost(RuntimeError):
    """A leader asks for the truncation of committed records: a voter has lost its log."""


@dataclass(frozen=True, slots=True)
class LoadedQuorum:
    """The state that a node loads from its directory at startup."""

    election: ElectionState
    history: VoterHistory
    log: RaftLog


class Quorum:
    """One replica of the log.  `me` is how it describes itself to the others."""

    def __init__(self, me: Voter, loaded: LoadedQuorum, options: QuorumOptions, random: RandomSource) -> None:
        self.me = me
        self.options = options
        self.log = loaded.log
        self.history = loaded.history
        self.requests = RequestManager(options.request_timeout_ns, options.retry_backoff_ns)
        # The end of the committed log as far as this node knows; None after a start.
        self.high_watermark: int | None = None
        self.is_shutting_down = False
        # A snapshot that replaces the log, begun as a follower of an earlier epoch.
        self.installing: SnapshotFetch | None = None
        self.effects: list[Effect] = []
        self._random = random
        self._stored = loaded.election
        self._reported = LeaderAndEpoch(loaded.election.epoch)
        # What was last derived from the role, and from the voters.
        self._leader: tuple[Role | None, LeaderAndEpoch] = (None, self._reported)
        self._derived: tuple[Voters | None, bool, tuple[Voter, ...]] = (None, False, ())
        self.role: Role = Unattached(max(loaded.election.epoch, self.log.last_epoch), 0)

    # Queries

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def voters(self) -> Voters:
        return self.history.voters

    @property
    def is_voter(self) -> bool:
        return self._derive()[1]

    @property
    def may_stand(self) -> bool:
        """Whether this node may be needed as the leader.

        A voter that is removed stands until that is committed: its log may be the only complete one (Raft
        dissertation, section 4.2.2).  Apache Kafka's does not, and the others may then wait for ever.
        """
        me = self.me
        return self.history.may_be_voter(me.id, me.directory_id, self.high_watermark or 0)

    @property
    def leader(self) -> LeaderAndEpoch:
        role, leader = self._leader
        if role is not self.role:
            leader = leader_of(self.role, self.me.id)
            self._leader = (self.role, leader)
        return leader

    def other_voters(self) -> tuple[Voter, ...]:
        return self._derive()[2]

    def _derive(self) -> tuple[Voters | None, bool, tuple[Voter, ...]]:
        """The voters, whether this node is one, and the others."""
        voters = self.history.voters
        if self._derived[0] is not voters:
            me = self.me
            others = tuple(voter for voter in voters if voter.id != me.id)
            self._derived = (voters, voters.has(me.id, me.directory_id), others)
        return self._derived

    def endpoints_of(self, leader: LeaderAndEpoch) -> tuple[VoterEndpoint, ...]:
        """Where a leader is: from its message, or from the voters."""
        if leader.endpoints:
            return leader.endpoints
        voter = self.history.voters.get(leader.leader_id)
        return voter.endpoints if voter is not None else ()

    # Effects

    def send(self, peer_id: int, request: PeerRequest, now_ns: int) -> None:
        self.effects.append(Send(peer_id, OutboundRequest(self.requests.sent(peer_id, now_ns), request)))

    def persist(self, entry: object, token: object | None = None) -> None:
        self.effects.append(Persist(entry, token))

    def reply(self, reply_to: object, response: object) -> None:
        self.effects.append(Reply(reply_to, response))

    def take_effects(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects

    def advance_high_watermark(self, offset: int) -> None:
        """Everything below this offset is committed; it never falls."""
        if self.high_watermark is None or offset > self.high_watermark:
            self.high_watermark = offset
            self.effects.append(Apply(HighWatermark(offset)))

    # Timeouts

    def election_deadline(self, now_ns: int) -> int:
        """From one to two election timeouts: two candidates of one election should not meet again."""
        timeout_ns = self.options.election_timeout_ns
        return now_ns + timeout_ns + self._random.integer(0, timeout_ns - 1)

    # Transitions

    def initialize(self, now_ns: int) -> None:
        """The role after a start follows from what was persisted (KIP-595)."""
        stored = self._stored
        epoch = max(stored.epoch, self.log.last_epoch)
        deadline_ns = self.election_deadline(now_ns)
        voted = None if stored.voted_id == NOBODY else ReplicaKey(stored.voted_id, stored.voted_directory_id)
        if stored.epoch < epoch:
            # Written by a leader of an epoch in which this node never voted.
            self.role = Unattached(epoch, deadline_ns)
        elif stored.leader_id == self.me.id:
            # It may not lead this epoch again: it does not know what it answered before its restart.
            others = {voter.id for voter in self.other_voters()}
            self.role = Resigned(epoch, deadline_ns, (), others, self.me.endpoints)
        elif voted is not None and voted.matches(self.me.key) and stored.leader_id == NOBODY:
            self.role = Candidate(epoch, deadline_ns, Votes(self._own_votes()))
        elif stored.leader_id != NOBODY and (endpoints := self._known_endpoints(stored.leader_id)):
            self.role = self._follower(LeaderAndEpoch(epoch, stored.leader_id, endpoints), voted, now_ns)
        else:
            self.role = Unattached(epoch, deadline_ns, stored.leader_id, voted)
        self._report_leader()

    def _known_endpoints(self, leader_id: int) -> tuple[VoterEndpoint, ...]:
        return self.endpoints_of(LeaderAndEpoch(self.epoch, leader_id))

    def become_unattached(self, epoch: int, now_ns: int) -> None:
        """A larger epoch was seen, and its leader is not known."""
        self._enter(Unattached(epoch, self._remaining_deadline(now_ns)), ElectionState(epoch))

    def _remaining_deadline(self, now_ns: int) -> int:
        """A node that waits for an election goes on waiting: candidates that cannot win must not delay it."""
        role = self.role
        if isinstance(role, Unattached | Prospective | Candidate | Resigned):
            return role.deadline_ns
        return self.election_deadline(now_ns)

    def lose_election(self, role: Prospective, now_ns: int, *, is_rejected: bool) -> None:
        """Too few votes in time, or a majority refused: wait for the leader, or for the next election."""
        election = _election(role.epoch, role.leader_id, role.voted)
        if role.leader_id != NOBODY and role.leader_endpoints:
            leader = LeaderAndEpoch(role.epoch, role.leader_id, role.leader_endpoints)
            self._enter(self._follower(leader, role.voted, now_ns), election)
        else:
            deadline_ns = self.election_deadline(now_ns) if is_rejected else role.deadline_ns
            self._enter(Unattached(role.epoch, deadline_ns, role.leader_id, role.voted), election)

    def vote_for(self, candidate: ReplicaKey) -> None:
        """The one vote of this epoch; persisted before it is answered."""
        role = self.role
        assert isinstance(role, Unattached | Prospective), "only a node without a leader votes"
        role.voted = candidate
        self._store(_election(role.epoch, NOBODY, candidate))

    def become_prospective(self, now_ns: int) -> None:
        role = self.role
        known = self.leader if isinstance(role, Follower | Unattached) else LeaderAndEpoch(role.epoch)
        voted = self._own_vote(role)
        prospective = Prospective(
            role.epoch, self.election_deadline(now_ns), known.leader_id, known.endpoints, voted
        )
        prospective.votes.granted |= self._own_votes()
        self._enter(prospective, _election(role.epoch, known.leader_id, voted))

    def _own_vote(self, role: Role) -> ReplicaKey | None:
        if isinstance(role, Candidate):
            return self.me.key
        return role.voted if isinstance(role, Follower | Unattached | Prospective) else None

    def _own_votes(self) -> set[int]:
        """Its own vote counts only if it is a voter, and not another replica of the same node."""
        return {self.me.id} if self.is_voter else set()

    def become_candidate(self, now_ns: int) -> None:
        """A new epoch, in which this node's vote is its own."""
        epoch = self.epoch + 1
        candidate = Candidate(epoch, self.election_deadline(now_ns), Votes(self._own_votes()))
        self._enter(candidate, _election(epoch, NOBODY, self.me.key))

    def become_leader(self, now_ns: int) -> Leader:
        leader = Leader(
            self.epoch,
            Progress(self.me.key, self.voters, self.log.end_offset),
            self.me.endpoints,
            check_quorum_ns=now_ns + self.options.check_quorum_timeout_ns,
            begin_epoch_ns=now_ns,
            unacknowledged={voter.id for voter in self.other_voters()},
        )
        self._enter(leader, ElectionState(self.epoch, self.me.id))
        return leader

    def become_follower(self, leader: LeaderAndEpoch, now_ns: int) -> None:
        """The leader of an epoch is known, and where it is."""
        voted = self._own_vote(self.role) if leader.epoch == self.epoch else None
        follower = self._follower(leader, voted, now_ns)
        self._enter(follower, _election(leader.epoch, leader.leader_id, voted))

    def _follower(self, leader: LeaderAndEpoch, voted: ReplicaKey | None, now_ns: int) -> Follower:
        return Follower(
            leader.epoch,
            now_ns + self.options.fetch_timeout_ns,
            leader.leader_id,
            self.endpoints_of(leader),
            voted,
            update_voter_ns=now_ns + self.options.update_voter_interval_ns,
        )

    def become_resigned(self, leader: Leader, now_ns: int) -> None:
        others = {voter.id for voter in self.other_voters()}
        successors = leader.progress.voters_by_end_offset()
        resigned = Resigned(
            leader.epoch, self.election_deadline(now_ns), successors, others, leader.endpoints
        )
        # The file still names this node: after a restart it must not stand in this epoch again.
        self._enter(resigned, ElectionState(leader.epoch, self.me.id))

    def _enter(self, role: Role, election: ElectionState) -> None:
        left, self.role = self.role, role
        if isinstance(left, Follower) and left.fetching is not None and left.fetching.is_installing:
            self.installing = left.fetching
        if isinstance(role, Follower):
            # What it fetched before the files report the end would continue the log that is going away.
            role.fetching = self.installing
        self._store(election)
        self.requests.reset()
        if isinstance(left, Leader):
            self._answer_waiting(left)
        self._report_leader()

    def _store(self, election: ElectionState) -> None:
        if election != self._stored:
            self._stored = election
            self.persist(StoreElection(election, self.voters.ids, self.history.kraft_version))

    def _report_leader(self) -> None:
        leader = self.leader
        if leader != self._reported:
            self._reported = leader
            self.effects.append(Apply(LeaderChanged(leader.epoch, leader.leader_id, leader.endpoints)))

    def _answer_waiting(self, left: Leader) -> None:
        """Requests that only a leader can complete."""
        for delayed in left.delayed_fetches:
            response = FetchResponse(self.leader, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.reply(delayed.reply_to, response)
        if left.change is not None:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            self.reply(left.change.reply_to, VoterChangeResponse(self.leader, error))


def _election(epoch: int, leader_id: int, voted: ReplicaKey | None) -> ElectionState:
    if voted is None:
        return ElectionState(epoch, leader_id)
    return ElectionState(epoch, leader_id, voted.id, voted.directory_id)
