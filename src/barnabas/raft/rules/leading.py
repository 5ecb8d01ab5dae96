"""What a leader does: it appends, announces its epoch, checks its quorum, and resigns (KIP-595)."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.batch.control import QuorumMessage
from barnabas.protocol.records.control import KRaftVersionRecord, LeaderChangeMessage
from barnabas.raft.messages import AppendBatch, ControlRecords, DataRecords
from barnabas.raft.quorum import Quorum
from barnabas.raft.roles import Candidate, Leader, Resigned
from barnabas.raft.rpc import BeginQuorumEpochRequest, EndQuorumEpochRequest, LeaderAndEpoch
from barnabas.raft.voter_history import NOT_IN_LOG
from barnabas.raft.voters import DYNAMIC_QUORUM, ReplicaKey


@dataclass(frozen=True, slots=True)
class LogPersisted:
    """The token of an append: the leader's log is durable up to this offset."""

    epoch: int
    end_offset: int


class Leading:
    """The rules of the leader, and of the leader that has resigned."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    # Appending

    def begin(self, candidate: Candidate, now_ns: int) -> Leader:
        """Elected: the first record of the epoch commits everything before it (section 5.4.2)."""
        granted = candidate.votes.granted
        leader = self._quorum.become_leader(now_ns)
        self.append_control(leader, self._first_messages(granted))
        return leader

    def _first_messages(self, granted: set[int]) -> tuple[QuorumMessage, ...]:
        """The leader and its votes, plus the voter set if the log lacks it or has an outdated one."""
        quorum = self._quorum
        voter = LeaderChangeMessage.Voter
        messages: list[QuorumMessage] = [
            LeaderChangeMessage(
                version=0,
                leader_id=quorum.me.id,
                voters=[voter(voter_id=voter_id) for voter_id in quorum.voters.ids],
                granting_voters=[voter(voter_id=voter_id) for voter_id in sorted(granted)],
            )
        ]
        history = quorum.history
        if history.kraft_version >= DYNAMIC_QUORUM:
            # A leader that is being removed does not add itself again.
            updated = history.voters.with_voter(quorum.me) if quorum.is_voter else history.voters
            if history.voters_offset == NOT_IN_LOG or updated != history.voters:
                messages.append(KRaftVersionRecord(version=0, kraft_version=history.kraft_version))
                messages.append(updated.to_record())
        return tuple(messages)

    def append_control(self, leader: Leader, messages: tuple[QuorumMessage, ...]) -> int:
        """Append control records; new voters are effective at once.  Returns the last offset."""
        quorum = self._quorum
        base_offset = quorum.log.end_offset
        self._append(leader, ControlRecords(messages), len(messages))
        for index, message in enumerate(messages):
            quorum.history.append(base_offset + index, message)
        if quorum.voters != leader.progress.voters:
            known = set(leader.progress.voters.ids)
            leader.unacknowledged |= {voter.id for voter in quorum.other_voters()} - known
            # A voter that was removed is no part of a majority.
            leader.fetched.intersection_update(quorum.voters.ids)
            if leader.progress.change_voters(quorum.voters):
                self._advance(leader)
        return quorum.log.end_offset - 1

    def append(self, leader: Leader, records: DataRecords) -> None:
        self._append(leader, records, len(records.values))

    def _append(self, leader: Leader, records: DataRecords | ControlRecords, count: int) -> None:
        quorum = self._quorum
        base_offset = quorum.log.end_offset
        end_offset = base_offset + count
        quorum.log.append(leader.epoch, end_offset)
        batch = AppendBatch(base_offset, leader.epoch, records)
        quorum.persist(batch, LogPersisted(leader.epoch, end_offset))

    def persisted(self, token: LogPersisted) -> bool:
        """The leader's own append is durable; returns whether the high watermark moved."""
        role = self._quorum.role
        if not isinstance(role, Leader) or role.epoch != token.epoch:
            return False
        if not role.progress.own_end(token.end_offset):
            return False
        self._advance(role)
        return True

    def fetched(self, leader: Leader, replica: ReplicaKey, offset: int, now_ns: int) -> bool:
        """A replica has everything below this offset; returns whether the high watermark moved."""
        moved = leader.progress.fetched(replica, offset, self._quorum.log.end_offset, now_ns)
        self.heard_from(leader, replica, now_ns)
        if moved:
            self._advance(leader)
        return moved

    def _advance(self, leader: Leader) -> None:
        assert leader.progress.high_watermark is not None, "it has just moved"
        self._quorum.advance_high_watermark(leader.progress.high_watermark)

    # The quorum

    def heard_from(self, leader: Leader, replica: ReplicaKey, now_ns: int) -> None:
        """A fetch of a voter proves that it follows this leader."""
        progress = leader.progress
        if not progress.is_voter(replica):
            return
        leader.fetched.add(replica.id)
        leader.unacknowledged.discard(replica.id)
        needed = progress.voters.majority - (1 if progress.is_voter(self._quorum.me.key) else 0)
        if len(leader.fetched) >= needed:
            leader.fetched.clear()
            leader.check_quorum_ns = now_ns + self._quorum.options.check_quorum_timeout_ns

    def acknowledged(self, voter_id: int) -> None:
        """A voter's response to BeginQuorumEpoch or EndQuorumEpoch."""
        role = self._quorum.role
        if isinstance(role, Leader | Resigned):
            role.unacknowledged.discard(voter_id)

    def poll_leader(self, leader: Leader, now_ns: int) -> int | None:
        """Returns when to look again; None if the leader has resigned."""
        quorum = self._quorum
        is_alone = quorum.is_voter and not quorum.other_voters()
        if is_alone:
            # The first other voter that is added has this long to fetch as one.
            leader.check_quorum_ns = now_ns + quorum.options.check_quorum_timeout_ns
        has_lost_quorum = not is_alone and now_ns >= leader.check_quorum_ns
        if leader.resigns or has_lost_quorum or (quorum.is_shutting_down and not is_alone):
            quorum.become_resigned(leader, now_ns)
            return None
        next_ns = self._announce(leader, now_ns)
        return next_ns if is_alone else min(next_ns, leader.check_quorum_ns)

    def _announce(self, leader: Leader, now_ns: int) -> int:
        """Send BeginQuorumEpoch to voters that have not responded yet, or no longer fetch."""
        quorum = self._quorum
        if now_ns >= leader.begin_epoch_ns:
            leader.begin_epoch_ns = now_ns + quorum.options.begin_epoch_interval_ns
            leader.unacknowledged |= {
                voter.id for voter in quorum.other_voters() if not self._fetches(leader, voter.key, now_ns)
            }
        next_ns = leader.begin_epoch_ns
        if not leader.unacknowledged:
            return next_ns
        for voter in quorum.other_voters():
            if voter.id not in leader.unacknowledged:
                continue
            ready_ns = quorum.requests.ready_ns(voter.id, now_ns)
            if ready_ns <= now_ns:
                request = BeginQuorumEpochRequest(quorum.leader, voter.key)
                quorum.send(voter.id, request, now_ns)
            else:
                next_ns = min(next_ns, ready_ns)
        return next_ns

    def _fetches(self, leader: Leader, voter: ReplicaKey, now_ns: int) -> bool:
        state = leader.progress.state_of(voter)
        if state is None or state.last_fetch_ns is None:
            return False
        return now_ns - state.last_fetch_ns < self._quorum.options.begin_epoch_interval_ns

    # Resigning

    def poll_resigned(self, role: Resigned, now_ns: int) -> int | None:
        """EndQuorumEpoch until all voters know; then wait for the election of another leader."""
        quorum = self._quorum
        if now_ns >= role.deadline_ns and not quorum.is_shutting_down:
            # It cannot vote in an epoch that it led, and may hear of itself as its leader.
            quorum.become_unattached(role.epoch + 1, now_ns)
            return None
        next_ns = (
            role.deadline_ns if now_ns < role.deadline_ns else now_ns + quorum.options.request_timeout_ns
        )
        for voter in quorum.other_voters():
            if voter.id not in role.unacknowledged:
                continue
            ready_ns = quorum.requests.ready_ns(voter.id, now_ns)
            if ready_ns <= now_ns:
                leader = LeaderAndEpoch(role.epoch, quorum.me.id, role.endpoints)
                request = EndQuorumEpochRequest(leader, role.preferred_candidates)
                quorum.send(voter.id, request, now_ns)
            else:
                next_ns = min(next_ns, ready_ns)
        return next_ns

    def resign(self, epoch: int) -> None:
        """Requested by this node's controller; ignored if this node does not lead this epoch."""
        role = self._quorum.role
        if isinstance(role, Leader) and role.epoch == epoch:
            role.resigns = True
