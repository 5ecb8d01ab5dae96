"""Elections: who may vote for whom, and what a candidate does with the votes (Raft, section 5.2; KIP-996).

A voter that misses its leader first asks whether it would be elected (prospective), and only then starts a
new epoch (candidate).
"""

from __future__ import annotations

from collections.abc import Hashable

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import ZERO_UUID
from barnabas.raft.log import OffsetAndEpoch
from barnabas.raft.quorum import Quorum
from barnabas.raft.quorum_state_file import NOBODY
from barnabas.raft.roles import Candidate, Follower, Leader, Prospective, Unattached, Votes
from barnabas.raft.rpc import VoteRequest, VoteResponse
from barnabas.raft.voters import ReplicaKey


class Elections:
    """The rules of voting and standing for election."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    # Voting

    def vote(self, reply_to: Hashable, request: VoteRequest, now_ns: int) -> None:
        error, granted = self._decide(request, now_ns)
        self._quorum.reply(reply_to, VoteResponse(self._quorum.leader, granted, error))

    def _decide(self, request: VoteRequest, now_ns: int) -> tuple[ErrorCode, bool]:
        quorum = self._quorum
        highest_last_epoch = request.epoch if request.pre_vote else request.epoch - 1
        if request.last.offset < 0 or not 0 <= request.last.epoch <= highest_last_epoch:
            return ErrorCode.INVALID_REQUEST, False
        if request.epoch < quorum.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH, False
        if request.candidate.id < 0:
            return ErrorCode.INVALID_REQUEST, False
        if request.epoch > quorum.epoch:
            quorum.become_unattached(request.epoch, now_ns)
        if request.voter is not None and not request.voter.matches(quorum.me.key):
            # Meant for the replica that this node was before it lost its disk.
            return ErrorCode.INVALID_VOTER_KEY, False
        if request.pre_vote:
            return ErrorCode.NONE, self._may_grant_pre_vote(request.last, now_ns)
        if not self._may_grant(request.candidate, request.last):
            return ErrorCode.NONE, False
        role = quorum.role
        if isinstance(role, Unattached | Prospective) and role.voted is None:
            quorum.vote_for(request.candidate)
        return ErrorCode.NONE, True

    def _may_grant_pre_vote(self, last: OffsetAndEpoch, now_ns: int) -> bool:
        """Whether this node would vote, if it has not heard from a leader lately (KIP-996).

        An observer of Apache Kafka that has fetched once refuses for ever.  One that was just added, and does
        not know it yet, can keep the voters from electing a leader by that.
        """
        role = self._quorum.role
        has_leader = isinstance(role, Follower) and role.has_fetched and now_ns < role.deadline_ns
        if isinstance(role, Leader) or has_leader:
            return False
        return last.is_up_to_date_with(self._quorum.log.end)

    def _may_grant(self, candidate: ReplicaKey, last: OffsetAndEpoch) -> bool:
        """One vote an epoch, and only for a log that is at least as up to date (sections 5.2, 5.4.1)."""
        role = self._quorum.role
        is_up_to_date = last.is_up_to_date_with(self._quorum.log.end)
        if isinstance(role, Unattached | Prospective):
            if role.voted is not None:
                return _is_same_candidate(role.voted, candidate)
            return role.leader_id == NOBODY and is_up_to_date
        return False

    # Standing for election

    def voted(self, voter_id: int, response: VoteResponse, now_ns: int) -> None:
        """A voter's response in this node's epoch."""
        role = self._quorum.role
        if not isinstance(role, Prospective | Candidate) or self._quorum.voters.get(voter_id) is None:
            return
        if response.error is ErrorCode.UNSUPPORTED_VERSION and isinstance(role, Prospective):
            # A voter of a release without pre-vote: elect as that release does (KIP-996).
            self._quorum.become_candidate(now_ns)
        elif response.granted:
            role.votes.granted.add(voter_id)
            role.votes.rejected.discard(voter_id)
        elif response.error is ErrorCode.NONE:
            role.votes.rejected.add(voter_id)

    def has_won(self, votes: Votes) -> bool:
        voters = self._quorum.voters
        return sum(voter_id in votes.granted for voter_id in voters.ids) >= voters.majority

    def has_lost(self, votes: Votes) -> bool:
        """Whether too few voters are left for a majority."""
        voters = self._quorum.voters
        rejected = sum(voter_id in votes.rejected for voter_id in voters.ids)
        return len(voters) - rejected < voters.majority

    def poll_unattached(self, role: Unattached, now_ns: int) -> int | None:
        """A voter waits for a leader; returns when to look again, None if the role has changed."""
        if now_ns < role.deadline_ns:
            return role.deadline_ns
        if self._quorum.is_shutting_down:
            return now_ns + self._quorum.options.election_timeout_ns
        self._quorum.become_prospective(now_ns)
        return None

    def poll_prospective(self, role: Prospective, now_ns: int) -> int | None:
        if self.has_won(role.votes):
            self._quorum.become_candidate(now_ns)
            return None
        is_rejected = self.has_lost(role.votes)
        if is_rejected or now_ns >= role.deadline_ns:
            self._quorum.lose_election(role, now_ns, is_rejected=is_rejected)
            return None
        return min(role.deadline_ns, self._request_votes(role.votes, now_ns, pre_vote=True))

    def poll_candidate(self, role: Candidate, now_ns: int) -> int | None:
        """Returns None if it starts over; a lost election waits for its timeout."""
        if now_ns >= role.deadline_ns:
            self._quorum.become_prospective(now_ns)
            return None
        if self.has_lost(role.votes):
            return role.deadline_ns
        return min(role.deadline_ns, self._request_votes(role.votes, now_ns, pre_vote=False))

    def _request_votes(self, votes: Votes, now_ns: int, *, pre_vote: bool) -> int:
        """Ask the voters that have not responded; returns when to ask again."""
        quorum = self._quorum
        next_ns = now_ns + quorum.options.request_timeout_ns
        for voter in quorum.other_voters():
            if voter.id in votes.granted or voter.id in votes.rejected:
                continue
            ready_ns = quorum.requests.ready_ns(voter.id, now_ns)
            if ready_ns <= now_ns:
                request = VoteRequest(quorum.me.key, quorum.epoch, quorum.log.end, pre_vote, voter.key)
                quorum.send(voter.id, request, now_ns)
            else:
                next_ns = min(next_ns, ready_ns)
        return next_ns


def _is_same_candidate(voted: ReplicaKey, candidate: ReplicaKey) -> bool:
    """A vote for a directory is not one for whichever directory the candidate has now."""
    return voted.id == candidate.id and voted.directory_id in (ZERO_UUID, candidate.directory_id)
