"""The Raft node, step by step."""

from __future__ import annotations

import pytest

from barnabas.base.effects import Apply, Effect, Persist, Persisted, Reply, Requested
from barnabas.base.ids import Uuid
from barnabas.protocol.records.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from barnabas.raft.messages import (
    Append,
    AppendBatch,
    Committed,
    ControlRecords,
    DataRecords,
    LeaderChanged,
    NotLeader,
    Resign,
    Start,
    StoreElection,
)
from barnabas.raft.node import VOTERS_NOT_IN_LOG, LoadedQuorum, RaftNode
from barnabas.raft.quorum_state import ElectionState
from barnabas.raft.voters import Voter, VoterEndpoint, Voters

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
    voters_offset: int = VOTERS_NOT_IN_LOG,
) -> RaftNode:
    loaded = LoadedQuorum(
        election=ElectionState() if election is None else election,
        voters=Voters([me]) if voters is None else voters,
        kraft_version=kraft_version,
        voters_offset=voters_offset,
        log_end_offset=end,
        log_epoch=log_epoch,
    )
    return RaftNode(me, loaded)


def _step(node: RaftNode, message: object) -> list[Effect]:
    return list(node.step(Requested("handle", message), 0))


def _persist_all(node: RaftNode, effects: list[Effect]) -> list[Effect]:
    """Persist these effects and all that follow from them; returns all of them."""
    seen: list[Effect] = []
    waiting = list(effects)
    while waiting:
        effect = waiting.pop(0)
        seen.append(effect)
        if isinstance(effect, Persist) and effect.token is not None:
            waiting += node.step(Persisted(effect.token), 0)
    return seen


def _lead(node: RaftNode) -> list[Effect]:
    return _persist_all(node, _step(node, Start()))


def test_a_single_voter_leads_only_after_its_vote_is_persisted() -> None:
    # M-E1
    node = _node()
    vote, changed = _step(node, Start())
    assert isinstance(vote, Persist)
    assert vote.entry == StoreElection(ElectionState(1, -1, 1), (1,), 0)
    assert changed == Apply(LeaderChanged(1, -1))
    assert not node.is_leader
    # Nothing happens before the vote is persisted.
    assert _step(node, Append(1, DataRecords((b"x",), 0))) == [Reply("handle", NotLeader(1))]
    elected, first, announced = node.step(Persisted(vote.token), 0)
    assert isinstance(elected, Persist)
    assert elected.entry == StoreElection(ElectionState(1, 1), (1,), 0)
    assert isinstance(first, Persist)
    assert isinstance(first.entry, AppendBatch)
    change = LeaderChangeMessage(
        version=0,
        leader_id=1,
        voters=[LeaderChangeMessage.Voter(voter_id=1)],
        granting_voters=[LeaderChangeMessage.Voter(voter_id=1)],
    )
    assert first.entry == AppendBatch(0, 1, ControlRecords((change,)))
    assert announced == Apply(LeaderChanged(1, 1))
    assert (node.is_leader, node.leader_id, node.high_watermark) == (True, 1, None)
    assert node.step(Persisted(first.token), 0) == [Apply(Committed(1))]


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
    assert node.step(Persisted(append.token), 0) == [Apply(Committed(3))]
    assert node.step(Persisted(two.token), 0) == [Apply(Committed(4))]
    assert node.step(Persisted(append.token), 0) == []
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
    assert effects[-1] == Apply(Committed(11))


def test_persisted_events_of_an_earlier_epoch_are_ignored() -> None:
    node = _node()
    (vote, _) = _step(node, Start())
    assert isinstance(vote, Persist)
    (_, first, _) = node.step(Persisted(vote.token), 0)
    assert isinstance(first, Persist)
    assert node.step(Persisted(vote.token), 0) == []
    assert _step(node, Append(0, DataRecords((b"x",), 0))) == [Reply("handle", NotLeader(1))]
    assert node.end_offset == 1


def test_one_of_several_voters_does_not_elect_itself() -> None:
    node = _node(voters=Voters([Voter(1), Voter(2), Voter(3)]))
    assert _step(node, Start()) == []
    other = _node(voters=Voters([Voter(1, HERE)]), me=Voter(1, Uuid(b"x" * 16)))
    assert _step(other, Start()) == []


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
    _persist_all(node, _step(node, Start()))
    assert node.leader_epoch == 4, "its vote is valid for the epoch"
    appended = _step(node, Append(4, DataRecords((b"a",), 0)))
    assert _step(node, Resign(4)) == [Apply(LeaderChanged(4, -1))]
    assert (node.leader_epoch, node.leader_id, node.high_watermark) == (None, -1, None)
    assert _step(node, Append(4, DataRecords((b"b",), 0))) == [Reply("handle", NotLeader(4))]
    end = node.end_offset
    assert Apply(Committed(end)) not in _persist_all(node, appended), "without a leader nothing is committed"
    effects = _persist_all(node, _step(node, Start()))
    assert node.leader_epoch == 5, "never twice in the same epoch"
    assert Apply(Committed(end + 1)) in effects, "with the records already in the log"


def test_only_the_leader_of_that_epoch_resigns() -> None:
    node = _node()
    assert _step(node, Resign(0)) == []
    _persist_all(node, _step(node, Start()))
    assert _step(node, Resign(0)) == []
    assert node.leader_epoch == 1
