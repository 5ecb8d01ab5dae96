"""Bugs that raft-quorum must find: each is a mistake that an implementation of Raft has made, or could."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.base.effects import Apply, Effect, Persist
from barnabas.base.errors import ErrorCode
from barnabas.raft.log import VALID, OffsetAndEpoch, RaftLog
from barnabas.raft.messages import HighWatermark, StoreElection, TruncateLog
from barnabas.raft.progress import Progress
from barnabas.raft.quorum import Quorum
from barnabas.raft.roles import Follower, Leader, Prospective, Resigned, Votes
from barnabas.raft.rules.elections import Elections
from barnabas.raft.rules.following import Following
from barnabas.raft.rules.leading import Leading
from barnabas.raft.rules.reconfiguration import Reconfiguration, Refused
from barnabas.raft.rules.serving import Serving
from barnabas.raft.voter_history import VoterHistory
from barnabas.raft.voters import ReplicaKey, Voter, Voters
from barnabas.runtime.planted import patched
from barnabas.testing.simulation.registry import planted

SCENARIO = "raft-quorum"
# All are found within 30 seeds, most within 10.
WITHIN_SEEDS = 200

# ------------------------------------------------------------------------------------------------ elections


@planted("raft: two votes in one epoch", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def two_votes() -> Iterator[None]:
    """A voter forgets that it has voted."""

    def vote_for(self: Quorum, candidate: ReplicaKey) -> None:
        """Nothing is remembered."""

    with patched(Quorum, "vote_for", vote_for):
        yield


@planted("raft: votes are not persisted", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def votes_not_persisted() -> Iterator[None]:
    """A vote is answered while it is in memory only."""
    healthy = Quorum.persist

    def persist(self: Quorum, entry: object, token: object | None = None) -> None:
        if not isinstance(entry, StoreElection):
            healthy(self, entry, token)

    with patched(Quorum, "persist", persist):
        yield


@planted("raft: a shorter log is elected", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def shorter_log() -> Iterator[None]:
    """Voters do not compare the candidate's log with their own."""
    with patched(OffsetAndEpoch, "is_up_to_date_with", lambda self, other: True):
        yield


@planted("raft: the longer log wins", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def longer_log() -> Iterator[None]:
    """Logs are compared by length, not by epoch first."""
    with patched(OffsetAndEpoch, "is_up_to_date_with", lambda self, other: self.offset >= other.offset):
        yield


@planted("raft: one vote too few", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def one_vote_too_few() -> Iterator[None]:
    """A candidate with half of the votes leads."""

    def has_won(self: Elections, votes: Votes) -> bool:
        voters = self._quorum.voters
        return sum(voter_id in votes.granted for voter_id in voters.ids) >= max(1, len(voters) // 2)

    with patched(Elections, "has_won", has_won):
        yield


@planted("raft: a restarted leader leads on", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def leads_again() -> Iterator[None]:
    """A node that led an epoch stands in it again after a restart."""
    healthy = Quorum.initialize

    def initialize(self: Quorum, now_ns: int) -> None:
        healthy(self, now_ns)
        if isinstance(self.role, Resigned):
            self.become_leader(now_ns)

    with patched(Quorum, "initialize", initialize):
        yield


@planted("raft: prospective for ever", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def prospective_for_ever() -> Iterator[None]:
    """A node that cannot win the election asks on and on, and does not return to its leader (KIP-996)."""
    healthy = Elections.poll_prospective

    def poll_prospective(self: Elections, role: Prospective, now_ns: int) -> int | None:
        if self.has_won(role.votes):
            return healthy(self, role, now_ns)
        return now_ns + min(50_000_000, self._request_votes(role.votes, now_ns, pre_vote=True))

    with patched(Elections, "poll_prospective", poll_prospective):
        yield


@planted("raft: an empty disk votes", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def empty_disk_votes() -> Iterator[None]:
    """A voter is its node id: with an empty disk it votes again (KAFKA-12181, KIP-853)."""
    with (
        patched(Voter, "is_same", lambda self, node_id, directory_id: self.id == node_id),
        patched(ReplicaKey, "matches", lambda self, other: self.id == other.id),
    ):
        yield


@planted("raft: a leader without followers stays", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def never_resigns() -> Iterator[None]:
    """A leader that is cut off from its voters goes on (KAFKA-15489)."""
    healthy = Leading.poll_leader

    def poll_leader(self: Leading, leader: Leader, now_ns: int) -> int | None:
        leader.check_quorum_ns = max(leader.check_quorum_ns, now_ns + 1_000_000_000)
        return healthy(self, leader, now_ns)

    with patched(Leading, "poll_leader", poll_leader):
        yield


# ---------------------------------------------------------------------------------------------- replication


@planted("raft: records of earlier epochs count", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def earlier_epochs_count() -> Iterator[None]:
    """A new leader commits records of an earlier epoch by counting replicas (figure 8 of the paper)."""
    healthy = Progress.__init__

    def init(self: Progress, me: ReplicaKey, voters: Voters, epoch_start: int) -> None:
        healthy(self, me, voters, 0)

    with patched(Progress, "__init__", init):
        yield


@planted("raft: a minority commits", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def minority_commits() -> Iterator[None]:
    """The leader takes the largest end offset for the majority's."""

    def majority_end(self: Progress) -> int | None:
        ends = [state.end_offset for state in self._replicas.values() if state.end_offset is not None]
        return max(ends, default=None)

    with patched(Progress, "_majority_end", majority_end):
        yield


@planted("raft: every voter must have a record", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def every_voter_commits() -> Iterator[None]:
    """The leader takes the smallest end offset for the majority's: a voter that is away stops the quorum."""

    def majority_end(self: Progress) -> int | None:
        ends = [self._replicas[voter.key].end_offset for voter in self.voters]
        known = [end for end in ends if end is not None]
        return min(known) if len(known) == len(ends) else None

    with patched(Progress, "_majority_end", majority_end):
        yield


@planted("raft: messages overtake the disk", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def messages_overtake() -> Iterator[None]:
    """What a node says leaves it before what it depends on is durable."""
    healthy = Quorum.take_effects

    def take_effects(self: Quorum) -> list[Effect]:
        return sorted(healthy(self), key=lambda effect: isinstance(effect, Persist))

    with patched(Quorum, "take_effects", take_effects):
        yield


@planted("raft: a zombie's fetch counts", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def zombie_fetch() -> Iterator[None]:
    """The leader does not compare the epoch of a fetch with its own (KAFKA-7395)."""

    def check_leader(self: Serving, epoch: int) -> ErrorCode:
        is_leader = isinstance(self._quorum.role, Leader)
        return ErrorCode.NONE if is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    with (
        patched(Serving, "check_leader", check_leader),
        patched(RaftLog, "validate", lambda self, offset, last_epoch: VALID),
    ):
        yield


@planted("raft: diverging followers are counted", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def diverging_counts() -> Iterator[None]:
    """The leader does not compare a follower's log with its own (KAFKA-13141)."""
    with patched(RaftLog, "validate", lambda self, offset, last_epoch: VALID):
        yield


@planted("raft: truncation to the high watermark", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def truncation_to_high_watermark() -> Iterator[None]:
    """A follower truncates to its high watermark when it gets a new leader (KIP-101)."""
    healthy = Quorum.become_follower

    def become_follower(self: Quorum, leader: object, now_ns: int) -> None:
        offset = self.high_watermark or 0
        if self.log.start_offset <= offset < self.log.end_offset:
            self.log.truncate(offset)
            self.history.truncate(offset)
            self.persist(TruncateLog(offset))
        healthy(self, leader, now_ns)  # type: ignore[arg-type]

    with patched(Quorum, "become_follower", become_follower):
        yield


@planted("raft: no truncation", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def no_truncation() -> Iterator[None]:
    """A follower keeps records that its leader does not have, and fetches what comes after them."""

    def truncate(self: Following, diverging: OffsetAndEpoch) -> None:
        log = self._quorum.log
        log._epochs[-1:] = [max(diverging.epoch, log.last_epoch)]

    with patched(Following, "_truncate", truncate):
        yield


@planted("raft: a follower commits what it lacks", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def commits_what_it_lacks() -> Iterator[None]:
    """A follower takes over the leader's high watermark beyond its own log."""
    healthy = Quorum.advance_high_watermark

    def fetched(self: Following, response: object, now_ns: int) -> None:
        original(self, response, now_ns)  # type: ignore[arg-type]
        high_watermark = getattr(response, "high_watermark", -1)
        if high_watermark > 0 and isinstance(self._quorum.role, Follower):
            healthy(self._quorum, high_watermark)

    original = Following.fetched
    with patched(Following, "fetched", fetched):
        yield


# ------------------------------------------------------------------------------------------------- voters


@planted("raft: two changes of the voters at once", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def two_changes() -> Iterator[None]:
    """A change of the voters begins before the last one is committed."""

    def committed_voters(self: Reconfiguration, leader: Leader, request: object) -> Voters:
        leader.change = None
        return self._quorum.voters

    with patched(Reconfiguration, "_committed_voters", committed_voters):
        yield


@planted("raft: a voter change lowers the high watermark", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def high_watermark_falls() -> Iterator[None]:
    """The high watermark follows the majority of the new voters, even down (KAFKA-16530)."""

    def advance(self: Progress) -> bool:
        reached = self._majority_end()
        if reached is None or reached <= self.epoch_start or reached == self.high_watermark:
            return False
        self.high_watermark = reached
        return True

    def advance_high_watermark(self: Quorum, offset: int) -> None:
        if offset != self.high_watermark:
            self.high_watermark = offset
            self.effects.append(Apply(HighWatermark(offset)))

    with (
        patched(Progress, "_advance", advance),
        patched(Quorum, "advance_high_watermark", advance_high_watermark),
    ):
        yield


@planted("raft: a change before the epoch is committed", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def change_before_commit() -> Iterator[None]:
    """A new leader changes the voters before it has committed a record (the bug of the first publication)."""

    def committed_voters(self: Reconfiguration, leader: Leader, request: object) -> Voters:
        if leader.change is not None or self._quorum.history.kraft_version < 1:
            raise Refused(ErrorCode.REQUEST_TIMED_OUT, "a change is under way")
        return self._quorum.voters

    with patched(Reconfiguration, "_committed_voters", committed_voters):
        yield


@planted("raft: voters survive a truncation", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def voters_survive() -> Iterator[None]:
    """A voters record that was truncated stays effective."""
    with patched(VoterHistory, "truncate", lambda self, end_offset: None):
        yield


@planted("raft: new voters count late", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def new_voters_count_late() -> Iterator[None]:
    """The leader counts the old voters for records after a change."""
    with patched(Progress, "change_voters", lambda self, voters: False):
        yield


# ---------------------------------------------------------------------------------------------- snapshots


@planted("raft: a snapshot keeps the old log", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def snapshot_keeps_log() -> Iterator[None]:
    """After a snapshot is installed, the node continues where its old log ended."""

    def reset(self: RaftLog, snapshot: object) -> None:
        self.snapshot = snapshot  # type: ignore[assignment]

    with patched(RaftLog, "reset", reset):
        yield
