"""A Raft node that leads several voters; the test plays the others."""

from __future__ import annotations

from barnabas.base.effects import Effect, Fired, Persist, Persisted, Received, Reply, Requested, Send
from barnabas.base.ids import Uuid
from barnabas.raft.log import RaftLog
from barnabas.raft.messages import Start
from barnabas.raft.node import POLL, RaftNode
from barnabas.raft.options import QuorumOptions
from barnabas.raft.quorum import LoadedQuorum
from barnabas.raft.quorum_state_file import ElectionState
from barnabas.raft.roles import Leader
from barnabas.raft.rpc import (
    FetchRequest,
    InboundResponse,
    LeaderAndEpoch,
    OutboundRequest,
    PeerResponse,
    VoteRequest,
    VoteResponse,
)
from barnabas.raft.voter_history import NOT_IN_LOG, VoterHistory
from barnabas.raft.voters import ReplicaKey, Voter, VoterEndpoint, Voters
from barnabas.runtime.random import SeededRandom

SECOND_NS = 1_000_000_000


def directory(node_id: int) -> Uuid:
    return Uuid.from_words(node_id, 4711)


def described(node_id: int, *, highest: int = 1) -> Voter:
    """How a node describes itself."""
    endpoint = VoterEndpoint("CONTROLLER", "localhost", 9000 + node_id)
    return Voter(node_id, directory(node_id), (endpoint,), highest_version=highest)


class LeaderLab:
    """Node 1 of the voters 1, 2 and 3, or of those given, elected; its log is committed up to its end."""

    def __init__(self, *, kraft_version: int = 0, voters: Voters | None = None) -> None:
        if voters is None:
            voters = Voters(
                described(node_id)
                if kraft_version
                else Voter(node_id, endpoints=described(node_id).endpoints)
                for node_id in (1, 2, 3)
            )
        offset = 0 if kraft_version else NOT_IN_LOG
        history = VoterHistory(voters, kraft_version, offset)
        log = RaftLog(end_offset=1 if kraft_version else 0, epochs=[(1, 0)] if kraft_version else [])
        loaded = LoadedQuorum(ElectionState(), history, log)
        self.now_ns = 0
        self.node = RaftNode(described(1), loaded, QuorumOptions(), SeededRandom(1))
        self.sent: list[tuple[int, OutboundRequest]] = []
        self.replies: dict[object, object] = {}
        self._run(self.node.step(Requested(None, Start()), self.now_ns))
        if not self.node.is_alone:
            self._elect()
            self.commit()

    @property
    def leader(self) -> Leader:
        assert isinstance(self.node.role, Leader)
        return self.node.role

    def request(self, message: object, reply_to: object = "reply") -> object:
        """The reply; None if there is none yet."""
        self._run(self.node.step(Requested(reply_to, message), self.now_ns))
        return self.replies.pop(reply_to, None)

    def respond(self, to: OutboundRequest, sender: int, response: PeerResponse | None) -> None:
        event = Received(sender, InboundResponse(to.correlation_id, response))
        self._run(self.node.step(event, self.now_ns))

    def commit(self, *node_ids: int) -> None:
        """These nodes, or 2 and 3, fetch up to the end of the log."""
        for node_id in node_ids or (2, 3):
            self.fetch(ReplicaKey(node_id, directory(node_id)))

    def fetch(self, replica: ReplicaKey, offset: int | None = None) -> None:
        end = self.node.end_offset
        request = FetchRequest(replica, self.node.epoch, end if offset is None else offset, self.node.epoch)
        self.request(request, "fetch")

    def wait(self, duration_ns: int) -> None:
        self.now_ns += duration_ns
        self._run(self.node.step(Fired(POLL), self.now_ns))

    def _elect(self) -> None:
        self.wait(2 * SECOND_NS)
        for _ in range(2):
            # First whether they would vote, then whether they do.
            for sender, outbound in self.take(VoteRequest):
                leader = LeaderAndEpoch(self.node.epoch)
                self.respond(outbound, sender, VoteResponse(leader, granted=True))
        assert self.node.is_leader

    def take(self, kind: type[object]) -> list[tuple[int, OutboundRequest]]:
        """The requests of this kind that were sent."""
        taken = [entry for entry in self.sent if isinstance(entry[1].request, kind)]
        self.sent = [entry for entry in self.sent if entry not in taken]
        return taken

    def _run(self, effects: object) -> None:
        waiting: list[Effect] = list(effects)  # type: ignore[call-overload]
        while waiting:
            effect = waiting.pop(0)
            match effect:
                case Persist(_, token) if token is not None:
                    waiting += self.node.step(Persisted(token), self.now_ns)
                case Send(to, OutboundRequest() as outbound):
                    assert isinstance(to, int)
                    self.sent.append((to, outbound))
                case Reply(to, message):
                    self.replies[to] = message
