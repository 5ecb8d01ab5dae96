"""What a follower does: it fetches, truncates what its leader does not have, and installs snapshots.

A voter whose leader does not respond stands for election; an observer looks for another leader.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import ZERO_UUID
from barnabas.raft.log import OffsetAndEpoch
from barnabas.raft.messages import (
    AppendFetched,
    InstallSnapshot,
    SnapshotInstalled,
    TruncateLog,
    WriteSnapshotChunk,
)
from barnabas.raft.quorum import CommittedLogLost, Quorum
from barnabas.raft.quorum_state_file import NOBODY
from barnabas.raft.roles import Follower, Leader, Prospective, Resigned, SnapshotFetch
from barnabas.raft.rpc import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchedBatch,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderAndEpoch,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
)
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voter_history import NOT_IN_LOG, VoterHistory
from barnabas.raft.voters import DYNAMIC_QUORUM, ReplicaKey, Voter

# The leader has answered for this snapshot; after other errors the same request is sent again.
_SNAPSHOT_ERRORS = frozenset({ErrorCode.NONE, ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE})


class Following:
    """The follower's side of replication."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        # Where to continue among the nodes that may know the leader.
        self._next_peer = 0

    # The leader makes itself known

    def begin_epoch(self, reply_to: Hashable, request: BeginQuorumEpochRequest, now_ns: int) -> None:
        quorum = self._quorum
        error = self._check_epoch(request.leader)
        if error is ErrorCode.NONE:
            self.learn(request.leader, now_ns)
            if request.voter is not None and not request.voter.matches(quorum.me.key):
                error = ErrorCode.INVALID_VOTER_KEY
        quorum.reply(reply_to, BeginQuorumEpochResponse(quorum.leader, error))

    def end_epoch(self, reply_to: Hashable, request: EndQuorumEpochRequest, now_ns: int) -> None:
        """The leader resigns: the best successor stands at once, the others later."""
        quorum = self._quorum
        error = self._check_epoch(request.leader)
        if error is ErrorCode.NONE:
            self.learn(request.leader, now_ns)
            role = quorum.role
            if isinstance(role, Follower) and role.leader_id == request.leader.leader_id:
                role.deadline_ns = now_ns + self._backoff_ns(request.preferred_candidates)
                # It has no leader any more: it supports a better successor that stands before it.
                role.has_fetched = False
        quorum.reply(reply_to, EndQuorumEpochResponse(quorum.leader, error))

    def _check_epoch(self, leader: LeaderAndEpoch) -> ErrorCode:
        if leader.epoch < self._quorum.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE if leader.leader_id >= 0 else ErrorCode.INVALID_REQUEST

    def _backoff_ns(self, candidates: Iterable[ReplicaKey]) -> int:
        """Doubles with the position: each candidate gives the better ones a chance."""
        maximum_ns = self._quorum.options.election_backoff_max_ns
        preferred = list(candidates)
        position = next(
            (index for index, key in enumerate(preferred) if key.matches(self._quorum.me.key)),
            len(preferred),
        )
        if position == 0:
            return 0
        if position >= len(preferred):
            return maximum_ns
        base_ns = maximum_ns >> (len(preferred) - 1)
        return min(maximum_ns, base_ns << (position - 1))

    def learn(self, leader: LeaderAndEpoch, now_ns: int) -> None:
        """Take over the epoch and leader of a message, if they are newer than what this node knows."""
        quorum = self._quorum
        if leader.epoch < quorum.epoch or leader.leader_id == quorum.me.id:
            # A message about this node's own epochs comes from its past.
            return
        endpoints = quorum.endpoints_of(leader) if leader.leader_id != NOBODY else ()
        if leader.epoch > quorum.epoch:
            if endpoints:
                quorum.become_follower(leader, now_ns)
            else:
                quorum.become_unattached(leader.epoch, now_ns)
        elif endpoints and not self._knows(leader.leader_id, len(endpoints)):
            quorum.become_follower(leader, now_ns)

    def _knows(self, leader_id: int, endpoints: int) -> bool:
        """Whether this node knows the leader of its epoch, and as many endpoints of it.

        A prospective node that misses its leader does not return to it because others still name it.
        """
        role = self._quorum.role
        if isinstance(role, Follower | Prospective) and role.leader_id != NOBODY:
            return role.leader_id != leader_id or len(role.leader_endpoints) >= endpoints
        return isinstance(role, Leader | Resigned)

    # Fetching

    def poll_follower(self, role: Follower, now_ns: int) -> int | None:
        """Returns when to look again; None if the role has changed."""
        quorum = self._quorum
        if now_ns >= role.deadline_ns and quorum.may_stand and not quorum.is_shutting_down:
            quorum.become_prospective(now_ns)
            return None
        if quorum.is_voter:
            if now_ns >= role.update_voter_ns:
                self._update_voter(role, now_ns)
            next_ns = self._fetch(role, now_ns)
            if not quorum.is_shutting_down:
                next_ns = min(next_ns, role.deadline_ns)
        else:
            if now_ns >= role.update_voter_ns:
                self._join(role, now_ns)
            if now_ns >= role.deadline_ns:
                next_ns = self.find_leader(now_ns, role.leader_id)
            else:
                next_ns = min(self._fetch(role, now_ns), role.deadline_ns)
        # If it is due, it waits for the response to the request in flight.
        return next_ns if role.update_voter_ns <= now_ns else min(next_ns, role.update_voter_ns)

    def _fetch(self, role: Follower, now_ns: int) -> int:
        """Fetch records, or the next bytes of a snapshot; returns when a request may be sent again.

        While the leader does not respond, the other nodes may know a newer one.
        """
        quorum = self._quorum
        requests = quorum.requests
        fetching = role.fetching
        if fetching is not None and fetching.is_installing:
            return now_ns + quorum.options.fetch_timeout_ns
        if now_ns < role.fetch_after_ns:
            return role.fetch_after_ns
        if requests.has_timed_out(role.leader_id, now_ns):
            requests.forget(role.leader_id)
            return self.find_leader(now_ns, NOBODY)
        if requests.is_backing_off(role.leader_id, now_ns):
            ready_ns = requests.ready_ns(role.leader_id, now_ns)
            return min(self.find_leader(now_ns, NOBODY), ready_ns)
        in_flight_ns = requests.in_flight_until_ns(now_ns)
        if in_flight_ns is not None:
            return in_flight_ns
        if fetching is None:
            quorum.send(role.leader_id, self._fetch_request(), now_ns)
        else:
            request = FetchSnapshotRequest(quorum.me.key, role.epoch, fetching.snapshot, fetching.position)
            quorum.send(role.leader_id, request, now_ns)
        return now_ns + quorum.options.request_timeout_ns

    def _fetch_request(self) -> FetchRequest:
        quorum = self._quorum
        known = -1 if quorum.high_watermark is None else quorum.high_watermark
        return FetchRequest(
            quorum.me.key,
            quorum.epoch,
            quorum.log.end_offset,
            quorum.log.last_epoch,
            quorum.options.fetch_max_wait_ns,
            known,
        )

    def find_leader(self, now_ns: int, last_leader_id: int) -> int:
        """A node without a leader fetches from one node after the other; a response names the leader."""
        quorum = self._quorum
        requests = quorum.requests
        in_flight_ns = requests.in_flight_until_ns(now_ns)
        if in_flight_ns is not None:
            return in_flight_ns
        peers = list(quorum.options.bootstrap_ids) or [voter.id for voter in quorum.other_voters()]
        if last_leader_id != NOBODY and last_leader_id not in peers:
            # It may be back, and none of the others the leader.
            peers.append(last_leader_id)
        next_ns = now_ns + quorum.options.fetch_timeout_ns
        for step in range(len(peers)):
            index = (self._next_peer + step) % len(peers)
            ready_ns = requests.ready_ns(peers[index], now_ns)
            if ready_ns <= now_ns:
                self._next_peer = index + 1
                quorum.send(peers[index], self._fetch_request(), now_ns)
                return now_ns + quorum.options.request_timeout_ns
            next_ns = min(next_ns, ready_ns)
        return next_ns

    # Voters

    def _update_voter(self, role: Follower, now_ns: int) -> None:
        """Report new endpoints or versions to the leader, once it may be sent a request (KIP-853).

        In a static quorum every voter describes itself once to each leader.
        """
        quorum = self._quorum
        if quorum.history.kraft_version >= DYNAMIC_QUORUM:
            is_needed = quorum.voters.get(quorum.me.id) != quorum.me
        else:
            is_needed = not role.has_updated_leader
        if is_needed and _is_described(quorum.me):
            self._ask_leader(role, UpdateVoterRequest(role.epoch, quorum.me), now_ns)
        else:
            role.update_voter_ns = now_ns + quorum.options.update_voter_interval_ns

    def _join(self, role: Follower, now_ns: int) -> None:
        """Ask to be a voter; first, that the voter which this node was with another disk is removed."""
        quorum = self._quorum
        is_dynamic = quorum.history.kraft_version >= DYNAMIC_QUORUM
        if not quorum.options.auto_join or not is_dynamic or not _is_described(quorum.me):
            role.update_voter_ns = now_ns + quorum.options.update_voter_interval_ns
            return
        old = quorum.voters.get(quorum.me.id)
        if old is not None:
            self._ask_leader(role, RemoveVoterRequest(old.key), now_ns)
        else:
            # The response must not wait for the commit: this node does not fetch meanwhile.
            timeout_ns = quorum.options.request_timeout_ns
            self._ask_leader(role, AddVoterRequest(quorum.me, timeout_ns, ack_when_committed=False), now_ns)

    def _ask_leader(
        self, role: Follower, request: UpdateVoterRequest | AddVoterRequest | RemoveVoterRequest, now_ns: int
    ) -> None:
        """Send it when the leader has responded to the request in flight."""
        quorum = self._quorum
        if quorum.requests.ready_ns(role.leader_id, now_ns) <= now_ns:
            quorum.send(role.leader_id, request, now_ns)
            role.update_voter_ns = now_ns + quorum.options.update_voter_interval_ns

    def voter_updated(self, response: VoterChangeResponse, now_ns: int) -> None:
        """The leader knows this voter's description, or has no use for it."""
        quorum = self._quorum
        role = quorum.role
        is_done = response.error in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION)
        if isinstance(role, Follower) and quorum.is_voter and is_done:
            role.has_updated_leader = True
            self._reached_leader(role, now_ns)

    def _reached_leader(self, role: Follower, now_ns: int) -> None:
        role.has_fetched = True
        role.deadline_ns = now_ns + self._quorum.options.fetch_timeout_ns

    # Responses

    def fetched(self, response: FetchResponse, now_ns: int) -> None:
        """A response of the leader of this epoch."""
        quorum = self._quorum
        role = quorum.role
        if not isinstance(role, Follower):
            return
        if role.fetching is not None:
            if role.fetching.is_installing:
                return
            # The leader did not respond for so long that this node looked for another one.
            role.fetching = None
        if response.diverging is not None:
            # Before the high watermark of the response counts (KAFKA-14704).
            self._truncate(response.diverging)
        elif response.snapshot is not None:
            self._begin_snapshot(role, response.snapshot)
        else:
            self._append(role, response.batches)
            if response.high_watermark >= 0:
                # Never beyond the records that this node has.
                quorum.advance_high_watermark(min(response.high_watermark, quorum.log.end_offset))
        self._reached_leader(role, now_ns)

    def _truncate(self, diverging: OffsetAndEpoch) -> None:
        quorum = self._quorum
        offset = quorum.log.truncation_offset(diverging)
        snapshot = quorum.log.snapshot
        committed = max(quorum.high_watermark or 0, 0 if snapshot is None else snapshot.offset)
        if offset < committed:
            raise CommittedLogLost(
                f"the leader of epoch {quorum.epoch} requests truncation to offset {offset}, but everything"
                f" below {committed} was committed: a voter has lost its log"
            )
        if offset < quorum.log.end_offset:
            quorum.log.truncate(offset)
            quorum.history.truncate(offset)
            quorum.persist(TruncateLog(offset))

    def _append(self, role: Follower, batches: tuple[FetchedBatch, ...]) -> None:
        """Append what continues the log; a duplicated or late response adds nothing."""
        quorum = self._quorum
        for batch in batches:
            if batch.base_offset != quorum.log.end_offset:
                continue
            if batch.epoch > role.epoch or batch.epoch < quorum.log.last_epoch:
                # Not from a leader of this epoch: the rest of the response cannot be trusted.
                return
            quorum.log.append(batch.epoch, batch.end_offset)
            for index, message in enumerate(batch.control):
                quorum.history.append(batch.base_offset + index, message)
            quorum.persist(AppendFetched(batch))

    # Snapshots

    def _begin_snapshot(self, role: Follower, snapshot: SnapshotId) -> None:
        known = self._quorum.log.snapshot
        if known is None or snapshot > known:
            role.fetching = SnapshotFetch(snapshot)

    def fetched_snapshot(self, response: FetchSnapshotResponse, now_ns: int) -> None:
        """The next bytes of the snapshot that this follower is fetching."""
        quorum = self._quorum
        role = quorum.role
        if not isinstance(role, Follower) or role.fetching is None or role.fetching.is_installing:
            return
        fetching = role.fetching
        if response.error not in _SNAPSHOT_ERRORS:
            return
        self._reached_leader(role, now_ns)
        if response.error is not ErrorCode.NONE or response.snapshot is None:
            # The leader has deleted it: the next fetch names a newer one.
            role.fetching = None
            return
        if response.snapshot != fetching.snapshot or response.position != fetching.position:
            return
        quorum.persist(WriteSnapshotChunk(fetching.snapshot, fetching.position, response.data))
        fetching.position += len(response.data)
        if fetching.position >= response.size:
            fetching.is_installing = True
            quorum.persist(InstallSnapshot(fetching.snapshot))

    def installed(self, event: SnapshotInstalled, now_ns: int) -> None:
        """The files have replaced the log by the snapshot, or found it damaged."""
        quorum = self._quorum
        role = quorum.role
        quorum.installing = None
        if event.voters is not None:
            quorum.log.reset(event.snapshot)
            # A snapshot of a static quorum has no voters: they are as configured, whatever an upgrade said
            # that was never committed.
            is_dynamic = event.kraft_version >= DYNAMIC_QUORUM
            voters = event.voters if is_dynamic else quorum.history.voters_at(NOT_IN_LOG)
            quorum.history = VoterHistory(voters, event.kraft_version, event.snapshot.offset - 1)
            quorum.advance_high_watermark(event.snapshot.offset)
        if isinstance(role, Follower):
            role.fetching = None
            if event.voters is None:
                role.fetch_after_ns = now_ns + self._damage_backoff_ns(role)
            role.deadline_ns = max(now_ns, role.fetch_after_ns) + quorum.options.fetch_timeout_ns

    def _damage_backoff_ns(self, role: Follower) -> int:
        """Doubles with each damaged snapshot of this leader: the next one may be as damaged, and as large."""
        options = self._quorum.options
        delay_ns = options.retry_backoff_ns << role.damaged_snapshots
        if delay_ns < options.fetch_timeout_ns:
            role.damaged_snapshots += 1
        return min(delay_ns, options.fetch_timeout_ns)


def _is_described(me: Voter) -> bool:
    return bool(me.endpoints) and me.directory_id != ZERO_UUID
