"""The leader's view of the replicas' logs, and the high watermark that follows from it."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.raft.voters import ReplicaKey, Voters

# An observer that has not fetched for this long is no longer reported (DescribeQuorum).
OBSERVER_SESSION_NS = 300 * 1_000_000_000
# A fetch may name any replica id: beyond this many, the observer that was silent the longest is forgotten.
MAX_OBSERVERS = 10_000


@dataclass(slots=True)
class ReplicaState:
    """What the leader knows of one replica.  Times are None until the replica has fetched."""

    end_offset: int | None = None
    last_fetch_ns: int | None = None
    last_caught_up_ns: int | None = None
    # The leader's own end offset at the last fetch.
    last_leader_end_offset: int = -1


class Progress:
    """The end offsets on stable storage, by replica; only the leader of an epoch has one."""

    __slots__ = ("_me", "_observers", "_replicas", "epoch_start", "high_watermark", "voters")

    def __init__(self, me: ReplicaKey, voters: Voters, epoch_start: int) -> None:
        self.voters = voters
        self.epoch_start = epoch_start
        self.high_watermark: int | None = None
        self._me = me
        # The voters, and the leader itself even if it is none.
        self._replicas: dict[ReplicaKey, ReplicaState] = {voter.key: ReplicaState() for voter in voters}
        self._replicas.setdefault(self._key(me), ReplicaState())
        # All others that have fetched, the last one last.
        self._observers: dict[ReplicaKey, ReplicaState] = {}

    def state_of(self, replica: ReplicaKey) -> ReplicaState | None:
        key = self._key(replica)
        return self._replicas.get(key) or self._observers.get(key)

    def observers(self, now_ns: int) -> list[tuple[ReplicaKey, ReplicaState]]:
        """The other replicas that fetch from this leader.  Forgets those that no longer do."""
        for key, state in list(self._observers.items()):
            if state.last_fetch_ns is None or now_ns - state.last_fetch_ns >= OBSERVER_SESSION_NS:
                del self._observers[key]
        return list(self._observers.items())

    def is_voter(self, replica: ReplicaKey) -> bool:
        return self.voters.has(replica.id, replica.directory_id)

    def voters_by_end_offset(self) -> tuple[ReplicaKey, ...]:
        """The other voters, those with the longest log first: they are the best successors."""

        def rank(key: ReplicaKey) -> tuple[int, int]:
            end_offset = self._replicas[key].end_offset
            return -1 if end_offset is None else end_offset, -key.id

        others = (voter.key for voter in self.voters if not voter.key.matches(self._me))
        return tuple(sorted(others, key=rank, reverse=True))

    def own_end(self, end_offset: int) -> bool:
        """The leader's log is durable up to here; returns whether the high watermark moved."""
        self._replicas[self._key(self._me)].end_offset = end_offset
        return self._advance()

    def fetched(self, replica: ReplicaKey, end_offset: int, leader_end_offset: int, now_ns: int) -> bool:
        """A replica's log is durable up to here; returns whether the high watermark moved."""
        state = self._replicas.get(self._key(replica)) or self._observer(replica)
        if end_offset >= leader_end_offset:
            state.last_caught_up_ns = now_ns
        elif state.last_leader_end_offset >= 0 and end_offset >= state.last_leader_end_offset:
            state.last_caught_up_ns = max(state.last_caught_up_ns or 0, state.last_fetch_ns or 0)
        has_moved = end_offset != state.end_offset
        state.end_offset = end_offset
        state.last_fetch_ns = now_ns
        state.last_leader_end_offset = leader_end_offset
        return has_moved and self.is_voter(replica) and self._advance()

    def _observer(self, replica: ReplicaKey) -> ReplicaState:
        """The state of a replica that fetches now and is no voter."""
        state = self._observers.pop(replica, None)
        if state is None:
            state = ReplicaState()
            if len(self._observers) >= MAX_OBSERVERS:
                del self._observers[next(iter(self._observers))]
        self._observers[replica] = state
        return state

    def change_voters(self, voters: Voters) -> bool:
        """New voters are effective at once; returns whether the high watermark moved."""
        states = {**self._observers, **self._replicas}
        self.voters = voters
        self._observers, self._replicas = {}, {}
        me = self._key(self._me)
        for replica, state in states.items():
            key = self._key(replica)
            if key == me or self.is_voter(key):
                self._replicas[key] = state
            elif state.last_fetch_ns is not None:
                self._observers[key] = state
        for voter in voters:
            self._replicas.setdefault(voter.key, ReplicaState())
        self._replicas.setdefault(me, ReplicaState())
        return self._advance()

    def _key(self, replica: ReplicaKey) -> ReplicaKey:
        """A static voter is known by its id alone."""
        voter = self.voters.get(replica.id)
        return voter.key if voter is not None and voter.key.matches(replica) else replica

    def _advance(self) -> bool:
        reached = self._majority_end()
        # A record of an earlier epoch is committed only once a record of this epoch follows it: Raft, section
        # 5.4.2, where an older record on a majority can still be overwritten.
        if reached is None or reached <= self.epoch_start:
            return False
        # It never falls, although a change of voters can make the majority's end smaller (KAFKA-16530).
        if self.high_watermark is not None and reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        return True

    def _majority_end(self) -> int | None:
        """The offset that a majority has reached."""
        ends = [
            state.end_offset
            for voter in self.voters
            if (state := self._replicas[voter.key]).end_offset is not None
        ]
        majority = self.voters.majority
        if len(ends) < majority:
            return None
        ends.sort(reverse=True)
        return ends[majority - 1]
