"""The Raft node: a step machine that replicates one log to a majority of voters (KIP-595).

Contains which rule handles which event, and the polling of the present role.  The rules are in rules/; the
state that they share in quorum.py.  Bytes, files and timestamps belong in the broker; the meaning of the
records belongs in `metadata` and `controller`.

Events in, effects out (base.effects).  After every event the role is polled: it sends what is due and says
when it must be polled again, so that one timer serves them all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from barnabas.base.effects import Effect, Event, Fired, Received, Requested, SetTimer
from barnabas.base.errors import ErrorCode
from barnabas.raft.messages import (
    Append,
    NotLeader,
    Resign,
    Shutdown,
    SnapshotInstalled,
    SnapshotTaken,
    Start,
    UpgradeKraftVersion,
)
from barnabas.raft.options import QuorumOptions
from barnabas.raft.quorum import LoadedQuorum, Quorum, RandomSource
from barnabas.raft.quorum_state_file import NOBODY
from barnabas.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from barnabas.raft.rpc import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    InboundResponse,
    PeerResponse,
    RemoveVoterRequest,
    SupportedVersionsResponse,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from barnabas.raft.rules.elections import Elections
from barnabas.raft.rules.following import Following
from barnabas.raft.rules.leading import Leading, LogPersisted
from barnabas.raft.rules.reconfiguration import Reconfiguration
from barnabas.raft.rules.serving import Serving
from barnabas.raft.rules.version_upgrade import upgrade, upgrade_error
from barnabas.raft.voters import Voter, Voters

POLL = "poll"
# These errors say that the sender knows another leader or epoch, which its response names.
_LEADER_ERRORS = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER})


class RaftNode:
    """One replica of the log, in any role."""

    def __init__(self, me: Voter, loaded: LoadedQuorum, options: QuorumOptions, random: RandomSource) -> None:
        self.quorum = Quorum(me, loaded, options, random)
        self._elections = Elections(self.quorum)
        self._leading = Leading(self.quorum)
        self._serving = Serving(self.quorum, self._leading)
        self._following = Following(self.quorum)
        self._reconfiguration = Reconfiguration(self.quorum, self._leading, self._serving)
        self._is_started = False
        self._timer_ns: int | None = None
        # What is not in this table is a request of this node's own process.
        self._handlers: dict[type, Callable[[Hashable, Any, int], None]] = {
            FetchRequest: self._serving.fetch,
            VoteRequest: self._elections.vote,
            BeginQuorumEpochRequest: self._following.begin_epoch,
            EndQuorumEpochRequest: self._following.end_epoch,
            FetchSnapshotRequest: self._serving.fetch_snapshot,
            AddVoterRequest: self._reconfiguration.request,
            RemoveVoterRequest: self._reconfiguration.request,
            UpdateVoterRequest: self._reconfiguration.request,
        }
        self._polls: dict[type[Role], Callable[[Any, int], int | None]] = {
            Follower: self._following.poll_follower,
            Leader: self._poll_leader,
            Unattached: self._poll_unattached,
            Prospective: self._elections.poll_prospective,
            Candidate: self._poll_candidate,
            Resigned: self._leading.poll_resigned,
        }

    # Queries

    @property
    def me(self) -> Voter:
        return self.quorum.me

    @property
    def role(self) -> Role:
        return self.quorum.role

    @property
    def voters(self) -> Voters:
        return self.quorum.voters

    @property
    def kraft_version(self) -> int:
        return self.quorum.history.kraft_version

    @property
    def end_offset(self) -> int:
        return self.quorum.log.end_offset

    @property
    def epoch(self) -> int:
        return self.quorum.epoch

    @property
    def is_alone(self) -> bool:
        """Whether this node is the only voter."""
        return self.quorum.voters.is_only(self.me.id, self.me.directory_id)

    @property
    def is_leader(self) -> bool:
        return isinstance(self.quorum.role, Leader)

    @property
    def leader_epoch(self) -> int | None:
        """The epoch that this node leads; None if it is not the leader."""
        role = self.quorum.role
        return role.epoch if isinstance(role, Leader) else None

    @property
    def leader_id(self) -> int:
        """The leader as far as this node knows; NOBODY if there is none."""
        return self.quorum.leader.leader_id

    @property
    def high_watermark(self) -> int | None:
        """The end of the committed log; a new leader does not know it."""
        role = self.quorum.role
        return role.progress.high_watermark if isinstance(role, Leader) else self.quorum.high_watermark

    def upgrade_error(self, kraft_version: int) -> str | None:
        """Why this node cannot upgrade the quorum to this `kraft.version`; None if it can."""
        return upgrade_error(self.quorum, kraft_version)

    # Events

    def step(self, event: Event, now_ns: int, /) -> Sequence[Effect]:
        """Process one event; returns the resulting effects in order."""
        # Not `match`, and a table of handlers: this is done for every message.
        if isinstance(event, Requested):
            handle = self._handlers.get(type(event.message), self._local)
            handle(event.reply_to, event.message, now_ns)
        elif isinstance(event, Received):
            message = event.message
            if isinstance(message, InboundResponse):
                self._received(event.sender, message.correlation_id, message.response, now_ns)
        elif isinstance(event, Fired):
            self._timer_ns = None
        elif isinstance(event.token, LogPersisted):
            self._leading.persisted(event.token)
        if self._is_started:
            self._poll(now_ns)
        return self.quorum.take_effects()

    def _local(self, reply_to: Hashable, message: object, now_ns: int) -> None:
        """Requests of this node's own process."""
        quorum = self.quorum
        match message:
            case Append(epoch, records):
                role = quorum.role
                if isinstance(role, Leader) and role.epoch == epoch:
                    self._leading.append(role, records)
                else:
                    quorum.reply(reply_to, NotLeader(role.epoch))
            case Start():
                self._start(now_ns)
            case Resign(epoch):
                self._leading.resign(epoch)
            case Shutdown():
                quorum.is_shutting_down = True
            case SnapshotTaken(snapshot, log_start_offset):
                quorum.log.snapshot = snapshot
                quorum.log.advance_start(log_start_offset)
                quorum.history.forget_before(snapshot.offset)
            case SnapshotInstalled():
                self._following.installed(message, now_ns)
            case UpgradeKraftVersion(epoch, version):
                upgrade(quorum, self._leading, epoch, version)

    def _start(self, now_ns: int) -> None:
        self._is_started = True
        self.quorum.initialize(now_ns)
        quorum = self.quorum
        is_only = quorum.voters.is_only(quorum.me.id, quorum.me.directory_id)
        if is_only and not isinstance(quorum.role, Candidate):
            # Nobody else can be elected: a quorum of one voter does not wait.
            quorum.become_candidate(now_ns)

    def _received(self, sender: int, correlation_id: int, response: PeerResponse | None, now_ns: int) -> None:
        quorum = self.quorum
        if not quorum.requests.received(sender, correlation_id):
            # Late, duplicated, or to a request of an earlier role.
            return
        if response is None or isinstance(response, SupportedVersionsResponse):
            if response is None:
                quorum.requests.back_off(sender, now_ns)
            self._reconfiguration.versions_received(sender, response, now_ns)
            return
        if response.error is not ErrorCode.NONE:
            quorum.requests.back_off(sender, now_ns)
        epoch_before = quorum.epoch
        self._following.learn(response.leader, now_ns)
        is_current = response.leader.epoch == quorum.epoch == epoch_before
        if not is_current or response.error in _LEADER_ERRORS:
            return
        if isinstance(response, FetchResponse):
            if response.error is ErrorCode.NONE:
                self._following.fetched(response, now_ns)
            return
        match response:
            case FetchSnapshotResponse():
                self._following.fetched_snapshot(response, now_ns)
            case VoteResponse():
                self._elections.voted(sender, response, now_ns)
            case BeginQuorumEpochResponse(error=ErrorCode.NONE):
                self._leading.acknowledged(sender)
            case EndQuorumEpochResponse(error=ErrorCode.NONE):
                self._leading.acknowledged(sender)
            case VoterChangeResponse():
                self._following.voter_updated(response, now_ns)

    # Polling

    def _poll(self, now_ns: int) -> None:
        """Let the present role do what is due, until it does not change any more."""
        next_ns: int | None = None
        while next_ns is None:
            role = self.quorum.role
            next_ns = self._polls[type(role)](role, now_ns)
        # A timer that is set too early only polls once more: most deadlines are postponed again and again.
        if self._timer_ns is None or next_ns < self._timer_ns:
            self._timer_ns = next_ns
            self.quorum.effects.append(SetTimer(POLL, next_ns))

    def _poll_candidate(self, role: Candidate, now_ns: int) -> int | None:
        if self._elections.has_won(role.votes):
            self._leading.begin(role, now_ns)
            return None
        return self._elections.poll_candidate(role, now_ns)

    def _poll_unattached(self, role: Unattached, now_ns: int) -> int | None:
        """Look for the leader; a voter stands for election if there is none in time."""
        next_ns: int | None = None
        if self.quorum.may_stand:
            next_ns = self._elections.poll_unattached(role, now_ns)
            if next_ns is None:
                return None
        leader_ns = self._following.find_leader(now_ns, NOBODY)
        return leader_ns if next_ns is None else min(next_ns, leader_ns)

    def _poll_leader(self, leader: Leader, now_ns: int) -> int | None:
        change_ns = self._reconfiguration.poll(leader, now_ns)
        next_ns = self._leading.poll_leader(leader, now_ns)
        if next_ns is None:
            return None
        fetch_ns = self._serving.poll(leader, now_ns)
        if change_ns is not None and change_ns < next_ns:
            next_ns = change_ns
        return next_ns if fetch_ns is None or next_ns < fetch_ns else fetch_ns
