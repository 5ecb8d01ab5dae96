"""One Raft node whose peers, disk and clock are the test."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.base.effects import (
    Apply,
    Effect,
    Fired,
    Persist,
    Persisted,
    Received,
    Reply,
    Requested,
    Send,
    SetTimer,
)
from barnabas.base.ids import Uuid
from barnabas.raft.log import OffsetAndEpoch, RaftLog
from barnabas.raft.messages import Start
from barnabas.raft.node import POLL, RaftNode
from barnabas.raft.options import QuorumOptions
from barnabas.raft.quorum import LoadedQuorum
from barnabas.raft.quorum_state_file import ElectionState
from barnabas.raft.rpc import (
    FetchRequest,
    InboundResponse,
    LeaderAndEpoch,
    OutboundRequest,
    PeerRequest,
    PeerResponse,
    VoteRequest,
    VoteResponse,
)
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voter_history import NOT_IN_LOG, VoterHistory
from barnabas.raft.voters import ReplicaKey, Voter, VoterEndpoint, Voters

MS = 1_000_000
OPTIONS = QuorumOptions()
END = OffsetAndEpoch(0, 0)


class Middle:
    """Random numbers that are always the lowest ones."""

    def integer(self, low: int, high: int) -> int:
        return low


def voter(node_id: int, disk: int = 0) -> Voter:
    directory_id = Uuid.from_words(node_id, 100 + disk)
    return Voter(node_id, directory_id, (VoterEndpoint("CONTROLLER", f"node{node_id}", 9093),))


def voters(*node_ids: int) -> Voters:
    return Voters(map(voter, node_ids))


def leader_of(epoch: int, leader_id: int = -1) -> LeaderAndEpoch:
    return LeaderAndEpoch(epoch, leader_id, voter(leader_id).endpoints if leader_id >= 0 else ())


class Node:
    """Node 1 of three voters, unless the test says otherwise; started, at time zero."""

    def __init__(
        self,
        *,
        me: Voter | None = None,
        voter_set: Voters | None = None,
        election: ElectionState | None = None,
        epochs: Iterable[tuple[int, int]] = (),
        start: int = 0,
        end: int = 0,
        snapshot: SnapshotId | None = None,
        kraft_version: int = 1,
        voters_offset: int = NOT_IN_LOG,
        options: QuorumOptions = OPTIONS,
    ) -> None:
        voter_set = voters(1, 2, 3) if voter_set is None else voter_set
        history = VoterHistory(voter_set, kraft_version, voters_offset)
        log = RaftLog(start_offset=start, end_offset=end, epochs=epochs, snapshot=snapshot)
        loaded = LoadedQuorum(election or ElectionState(), history, log)
        self.raft = RaftNode(me or voter(1), loaded, options, Middle())
        self.options = options
        self.now_ns = 0
        self.effects: list[Effect] = []
        self._in_flight: dict[int, int] = {}
        self.request(Start())

    # Events

    def step(self, event: Received | Requested | Persisted | Fired) -> list[Effect]:
        """One event; everything that it persists is durable at once.  Returns all effects."""
        effects = list(self.raft.step(event, self.now_ns))
        for effect in list(effects):
            if isinstance(effect, Send) and isinstance(effect.message, OutboundRequest):
                self._in_flight[effect.to] = effect.message.correlation_id
            if isinstance(effect, Persist) and effect.token is not None:
                effects += self.step(Persisted(effect.token))
        self.effects = effects
        return effects

    def request(self, message: object) -> object:
        """Returns the reply; None if there is none yet."""
        self.step(Requested("request", message))
        replies = [effect.message for effect in self.effects if isinstance(effect, Reply)]
        return replies[0] if replies else None

    def respond(self, peer_id: int, response: PeerResponse | None) -> list[Effect]:
        """The response to the last request that this node sent to a peer."""
        inbound = InboundResponse(self._in_flight[peer_id], response)
        return self.step(Received(peer_id, inbound))

    def at(self, ms: float) -> list[Effect]:
        """The timer fires at this time."""
        self.now_ns = int(ms * MS)
        return self.step(Fired(POLL))

    # What came of it

    def sent(self) -> dict[int, PeerRequest]:
        """The requests of the last event, by peer."""
        return {
            effect.to: effect.message.request
            for effect in self.effects
            if isinstance(effect, Send) and isinstance(effect.message, OutboundRequest)
        }

    def persisted(self) -> list[object]:
        return [effect.entry for effect in self.effects if isinstance(effect, Persist)]

    def applied(self) -> list[object]:
        return [effect.decided for effect in self.effects if isinstance(effect, Apply)]

    def timers(self) -> list[int]:
        return [effect.deadline_ns for effect in self.effects if isinstance(effect, SetTimer)]

    @property
    def role(self) -> str:
        return type(self.raft.role).__name__

    # Shortcuts

    def vote(self, peer_id: int, *, granted: bool = True) -> list[Effect]:
        epoch = self.raft.epoch
        return self.respond(peer_id, VoteResponse(LeaderAndEpoch(epoch), granted))

    def stand(self) -> None:
        """Candidate of the next epoch: its leader is lost, and the pre-vote is won."""
        self.now_ns += 3000 * MS
        self.step(Fired(POLL))
        assert self.role == "Prospective"
        self.vote(2)
        assert self.role == "Candidate"

    def lead(self) -> None:
        self.stand()
        self.vote(2)
        assert self.role == "Leader"

    def follow(self, leader_id: int, epoch: int) -> None:
        self.raft._following.learn(leader_of(epoch, leader_id), self.now_ns)
        self.step(Fired(POLL))
        assert self.role == "Follower"

    def fetch(
        self,
        node_id: int,
        offset: int,
        last_epoch: int,
        *,
        epoch: int | None = None,
        disk: int = 0,
        wait_ms: int = 0,
        high_watermark: int = -1,
    ) -> object:
        """A fetch of another node; returns its reply."""
        request = FetchRequest(
            voter(node_id, disk).key,
            self.raft.epoch if epoch is None else epoch,
            offset,
            last_epoch,
            wait_ms * MS,
            high_watermark,
        )
        return self.request(request)


def vote_request(
    candidate: int = 2,
    epoch: int = 1,
    last: OffsetAndEpoch = END,
    *,
    pre_vote: bool = False,
    for_voter: ReplicaKey | None = None,
) -> VoteRequest:
    return VoteRequest(voter(candidate).key, epoch, last, pre_vote, for_voter)
