"""The Raft node, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

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
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.protocol.records.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from barnabas.raft.log import OffsetAndEpoch, RaftLog
from barnabas.raft.messages import (
    Append,
    AppendBatch,
    ControlRecords,
    DataRecords,
    HighWatermark,
    InstallSnapshot,
    LeaderChanged,
    NotLeader,
    Resign,
    SnapshotInstalled,
    Start,
    StoreElection,
)
from barnabas.raft.node import POLL, RaftNode
from barnabas.raft.options import QuorumOptions
from barnabas.raft.quorum import LoadedQuorum
from barnabas.raft.quorum_state_file import ElectionState
from barnabas.raft.rpc import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    InboundResponse,
    LeaderAndEpoch,
    OutboundRequest,
    VoteRequest,
    VoteResponse,
)
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voter_history import NOT_IN_LOG, VoterHistory
from barnabas.raft.voters import ReplicaKey, Voter, VoterEndpoint, Voters
from barnabas.runtime.random import SeededRandom

HERE = Uuid(b"h" * 16)
ME = Voter(1)


def _node(
    election: ElectionState | None = None,
    *,
    end: int = 0,
    log_epoch: int = 0,
    voters: Voters | None = None,
    me: Voter = ME,
    kraft_version: int = 0,
    voters_offset: int = NOT_IN_LOG,
) -> RaftNode:
    history = VoterHistory(Voters([me]) if voters is None else voters, kraft_version, voters_offset)
    log = RaftLog(end_offset=end, epochs=[(log_epoch, 0)] if log_epoch else [])
    loaded = LoadedQuorum(ElectionState() if election is None else election, history, log)
    return RaftNode(me, loaded, QuorumOptions(), SeededRandom(1))


def _step(node: RaftNode, message: object) -> list[Effect]:
    return _without_timers(node.step(Requested("handle", message), 0))


def _without_timers(effects: Sequence[Effect]) -> list[Effect]:
    return [effect for effect in effects if not isinstance(effect, SetTimer)]


def _persist_all(node: RaftNode, effects: list[Effect]) -> list[Effect]:
    """Persist these effects and all that follow from them; returns all of them."""
    seen: list[Effect] = []
    waiting = list(effects)
    while waiting:
        effect = waiting.pop(0)
        seen.append(effect)
        if isinstance(effect, Persist) and effect.token is not None:
            waiting += _without_timers(node.step(Persisted(effect.token), 0))
    return seen


def _lead(node: RaftNode) -> list[Effect]:
    return _persist_all(node, _step(node, Start()))


def test_a_single_voter_elects_itself_and_persists_its_vote_first() -> None:
    # M-E1
    node = _node()
    effects = _step(node, Start())
    vote, candidate, elected, leader, first = effects
    assert vote == Persist(StoreElection(ElectionState(1, -1, 1), (1,), 0))
    assert candidate == Apply(LeaderChanged(1, -1))
    assert elected == Persist(StoreElection(ElectionState(1, 1), (1,), 0))
    assert leader == Apply(LeaderChanged(1, 1))
    assert isinstance(first, Persist)
    change = LeaderChangeMessage(
        version=0,
        leader_id=1,
        voters=[LeaderChangeMessage.Voter(voter_id=1)],
        granting_voters=[LeaderChangeMessage.Voter(voter_id=1)],
    )
    assert first.entry == AppendBatch(0, 1, ControlRecords((change,)))
    assert (node.is_leader, node.leader_id, node.high_watermark) == (True, 1, None)
    assert first.token is not None
    assert _without_timers(node.step(Persisted(first.token), 0)) == [Apply(HighWatermark(1))]


def test_appends_are_committed_once_they_are_persisted() -> None:
    node = _node()
    _lead(node)
    (append,) = _step(node, Append(1, DataRecords((b"a", b"b"), 5)))
    (two,) = _step(node, Append(1, DataRecords((b"c",), 6)))
    assert isinstance(append, Persist)
    assert isinstance(two, Persist)
    assert append.entry == AppendBatch(1, 1, DataRecords((b"a", b"b"), 5))
    assert two.entry == AppendBatch(3, 1, DataRecords((b"c",), 6))
    assert node.end_offset == 4
    assert _persist_all(node, [append])[1:] == [Apply(HighWatermark(3))]
    assert _persist_all(node, [two])[1:] == [Apply(HighWatermark(4))]
    assert node.high_watermark == 4


@pytest.mark.parametrize(
    ("election", "log_epoch", "epoch"),
    [
        (ElectionState(4, 1), 4, 5),  # it was the leader
        (ElectionState(4, 2), 4, 5),  # another node was the leader
        (ElectionState(4, -1, 1), 3, 4),  # its own vote was not counted yet
        (ElectionState(4, -1, 2), 3, 5),  # it voted for another node
        (ElectionState(4, -1, 1), 7, 8),  # the log is ahead of the file
        (ElectionState(), 0, 1),
    ],
)
def test_every_start_leads_in_a_new_epoch(election: ElectionState, log_epoch: int, epoch: int) -> None:
    node = _node(election, end=10, log_epoch=log_epoch)
    effects = _lead(node)
    assert node.epoch == epoch
    assert Apply(LeaderChanged(epoch, 1)) in effects
    assert effects[-1] == Apply(HighWatermark(11))


def test_an_append_of_another_epoch_is_refused() -> None:
    node = _node()
    _lead(node)
    assert _step(node, Append(0, DataRecords((b"x",), 0))) == [Reply("handle", NotLeader(1))]
    assert node.end_offset == 1


def test_one_of_several_voters_does_not_elect_itself() -> None:
    node = _node(voters=Voters([Voter(1), Voter(2), Voter(3)]))
    assert [type(effect) for effect in _step(node, Start())] == [Send]
    other = _node(voters=Voters([Voter(1, HERE)]), me=Voter(1, Uuid(b"x" * 16)))
    assert _step(other, Start()) == []


def test_a_vote_for_a_directory_is_repeated_for_that_directory_alone() -> None:
    """An older release's candidate names no directory: it may be another replica than the one voted for."""
    node = _node(voters=Voters([Voter(1), Voter(2), Voter(3)]))
    _step(node, Start())
    granted = []
    for directory_id in (HERE, HERE, ZERO_UUID, Uuid(b"x" * 16)):
        request = VoteRequest(ReplicaKey(2, directory_id), 1, OffsetAndEpoch(0, 0), False, ReplicaKey(1))
        (reply,) = [effect for effect in _step(node, request) if isinstance(effect, Reply)]
        assert isinstance(reply.message, VoteResponse)
        granted.append(reply.message.granted)
    assert granted == [True, True, False, False]


def test_a_dynamic_quorum_writes_its_voters_to_the_log_once() -> None:
    # KIP-853; golden/logs/kraft-4.1.0-dynamic-quorum, offsets 0 to 2.
    me = Voter(1, HERE, (VoterEndpoint("CONTROLLER", "localhost", 9093),))
    node = _node(me=me, kraft_version=1)
    effects = _lead(node)
    (batch,) = _batches(effects)
    assert isinstance(batch.records, ControlRecords)
    kinds = [type(message) for message in batch.records.messages]
    assert kinds == [LeaderChangeMessage, KRaftVersionRecord, VotersRecord]
    assert node.end_offset == 3
    restarted = _node(ElectionState(1, 1), me=me, kraft_version=1, end=3, log_epoch=1, voters_offset=2)
    _lead(restarted)
    assert restarted.end_offset == 4


def test_a_voter_with_a_new_address_is_written_to_the_log() -> None:
    old = Voter(1, HERE, (VoterEndpoint("CONTROLLER", "localhost", 9093),))
    new = Voter(1, HERE, (VoterEndpoint("CONTROLLER", "localhost", 9999),))
    node = _node(voters=Voters([old]), me=new, kraft_version=1, end=3, log_epoch=1, voters_offset=2)
    _lead(node)
    assert node.end_offset == 6
    assert node.voters.get(1) == new


def _batches(effects: list[Effect]) -> list[AppendBatch]:
    entries = [effect.entry for effect in effects if isinstance(effect, Persist)]
    return [entry for entry in entries if isinstance(entry, AppendBatch)]


def test_a_leader_that_resigns_may_be_elected_again() -> None:
    node = _node(ElectionState(4, voted_id=1), end=10, log_epoch=3)
    _lead(node)
    assert node.leader_epoch == 4, "its vote is valid for the epoch"
    appended = _step(node, Append(4, DataRecords((b"a",), 0)))
    assert Apply(LeaderChanged(4, -1)) in _step(node, Resign(4))
    assert (node.leader_epoch, node.leader_id) == (None, -1)
    assert _step(node, Append(4, DataRecords((b"b",), 0))) == [Reply("handle", NotLeader(4))]
    end = node.end_offset
    persisted = _persist_all(node, appended)
    assert Apply(HighWatermark(end)) not in persisted, "without a leader nothing is committed"
    later_ns = 0
    effects: list[Effect] = []
    while node.leader_epoch is None:
        later_ns += 1_000_000_000
        effects = _without_timers(node.step(Fired(POLL), later_ns))
    assert node.leader_epoch > 4, "never twice in the same epoch"
    assert Apply(HighWatermark(end + 1)) in _persist_all(node, effects), "with the records already in the log"


def test_only_the_leader_of_that_epoch_resigns() -> None:
    node = _node()
    assert _step(node, Resign(0)) == []
    _persist_all(node, _step(node, Start()))
    assert _step(node, Resign(0)) == []
    assert node.leader_epoch == 1


def _fetched(node: RaftNode, effects: Sequence[Effect], response: object) -> list[Effect]:
    """Answer the last request of these effects."""
    sent = [effect for effect in effects if isinstance(effect, Send)][-1]
    assert isinstance(sent.message, OutboundRequest)
    answer = InboundResponse(sent.message.correlation_id, response)  # type: ignore[arg-type]
    return _without_timers(node.step(Received(sent.to, answer), 0))


def _leader(epoch: int, leader_id: int) -> LeaderAndEpoch:
    return LeaderAndEpoch(epoch, leader_id, (VoterEndpoint("CONTROLLER", f"n{leader_id}", 1),))


def test_nothing_is_fetched_while_a_snapshot_is_installed() -> None:
    """Another leader, elected meanwhile, sent records that continued the log which the snapshot replaced."""
    node = _node(voters=Voters([ME, Voter(2), Voter(3)]))
    _step(node, Start())
    effects = _step(node, BeginQuorumEpochRequest(_leader(1, 2), None))
    snapshot = SnapshotId(20, 1)
    effects = _fetched(node, effects, FetchResponse(_leader(1, 2), snapshot=snapshot))
    effects = _fetched(
        node, effects, FetchSnapshotResponse(_leader(1, 2), snapshot=snapshot, size=3, data=b"abc")
    )
    assert Persist(InstallSnapshot(snapshot)) in effects

    effects = _step(node, BeginQuorumEpochRequest(_leader(2, 3), None))
    assert [effect for effect in effects if isinstance(effect, Send)] == []

    effects = _step(node, SnapshotInstalled(snapshot, Voters([])))
    (sent,) = [effect for effect in effects if isinstance(effect, Send)]
    assert isinstance(sent.message, OutboundRequest)
    assert isinstance(sent.message.request, FetchRequest)
    assert (sent.to, sent.message.request.offset) == (3, 20)
