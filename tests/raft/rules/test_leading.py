"""The leader: its first records, its announcements, its quorum, and how it resigns (KIP-595)."""

from __future__ import annotations

from barnabas.base.effects import Persist, Requested, Send
from barnabas.base.errors import ErrorCode
from barnabas.protocol.records.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from barnabas.raft.messages import (
    Append,
    AppendBatch,
    ControlRecords,
    DataRecords,
    HighWatermark,
    LeaderChanged,
    NotLeader,
    Resign,
    Shutdown,
    StoreElection,
)
from barnabas.raft.quorum_state_file import ElectionState
from barnabas.raft.rpc import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    VoteResponse,
)
from barnabas.raft.snapshot import SnapshotId
from tests.raft.harness import Node, leader_of, voter, voters


def _append(node: Node, value: bytes = b"x") -> object:
    return node.request(Append(node.raft.epoch, DataRecords((value,), 0)))


def _control(entry: object) -> tuple[object, ...]:
    assert isinstance(entry, AppendBatch)
    assert isinstance(entry.records, ControlRecords)
    return entry.records.messages


# The first records


def test_a_leader_writes_who_elected_it_and_the_voters_of_a_new_quorum() -> None:
    node = Node()
    node.lead()
    stored, batch = node.persisted()
    assert isinstance(stored, StoreElection)
    assert stored.state == ElectionState(1, 1)
    change, version, voter_record = _control(batch)
    assert isinstance(change, LeaderChangeMessage)
    assert [each.voter_id for each in change.voters] == [1, 2, 3]
    assert [each.voter_id for each in change.granting_voters] == [1, 2]
    assert isinstance(version, KRaftVersionRecord)
    assert isinstance(voter_record, VotersRecord)
    assert (node.raft.end_offset, node.raft.high_watermark) == (3, None)


def test_a_static_quorum_and_a_known_one_write_the_leader_only() -> None:
    for node in (Node(kraft_version=0), Node(voters_offset=2, end=3, epochs=[(1, 0)])):
        node.lead()
        assert len(_control(node.persisted()[1])) == 1


def test_a_leader_announces_itself() -> None:
    node = Node()
    node.lead()
    leader = leader_of(1, 1)
    assert node.sent() == {i: BeginQuorumEpochRequest(leader, voter(i).key) for i in (2, 3)}
    # What it says depends on what it wrote.
    kinds = [type(effect) for effect in node.effects if isinstance(effect, Persist | Send)]
    assert kinds[:2] == [Persist, Persist]


def test_it_asks_again_those_that_do_not_fetch() -> None:
    node = Node()
    node.lead()
    node.respond(2, BeginQuorumEpochResponse(leader_of(1, 1)))
    assert node.sent() == {}
    node.respond(3, None)
    assert node.sent() == {}
    node.at(3020)
    assert list(node.sent()) == [3]
    node.respond(3, BeginQuorumEpochResponse(leader_of(1, 1), ErrorCode.INVALID_VOTER_KEY))
    node.at(3040)
    assert list(node.sent()) == [3]
    # A fetch says more than a response.
    node.fetch(3, 0, 0)
    node.respond(3, None)
    node.at(3900)
    assert node.sent() == {}
    # After half a fetch timeout: node 2 has never fetched.
    node.at(4000)
    assert list(node.sent()) == [2]


# Appending


def test_an_append_is_refused_in_another_epoch_and_by_others() -> None:
    node = Node()
    assert node.request(Append(0, DataRecords((b"x",), 0))) == NotLeader(0)
    node.lead()
    assert node.request(Append(2, DataRecords((b"x",), 0))) == NotLeader(1)
    assert _append(node) is None
    assert node.raft.end_offset == 4


def test_the_own_log_counts_when_it_is_durable() -> None:
    node = Node()
    node.lead()
    node.fetch(2, 3, 1)
    assert node.raft.high_watermark == 3
    effects = node.raft.step(Requested("x", Append(1, DataRecords((b"x",), 0))), node.now_ns)
    assert [effect for effect in effects if isinstance(effect, Persist)]
    node.fetch(2, 4, 1)
    assert node.raft.high_watermark == 3


def test_a_record_of_an_earlier_epoch_is_committed_by_one_of_this_epoch() -> None:
    # Raft, figure 8
    node = Node(end=5, epochs=[(1, 0)], election=ElectionState(1), voters_offset=1)
    node.lead()
    node.fetch(2, 5, 1)
    assert node.raft.high_watermark is None
    node.fetch(2, 6, 2)
    assert node.raft.high_watermark == 6
    assert HighWatermark(6) in node.applied()


# The quorum


def test_a_leader_without_a_majority_resigns() -> None:
    # cluster.md 18; KAFKA-15489
    node = Node()
    node.lead()
    node.at(5999)
    assert node.role == "Leader"
    node.at(6000)
    assert node.role == "Resigned"
    assert LeaderChanged(1, -1) in node.applied()
    assert node.raft.leader_epoch is None


def test_fetches_of_a_majority_keep_it() -> None:
    node = Node()
    node.lead()
    node.at(5000)
    node.fetch(3, 0, 0)
    node.at(7999)
    assert node.role == "Leader"
    node.at(8000)
    assert node.role == "Resigned"


def test_fetches_of_observers_and_of_old_disks_do_not_keep_it() -> None:
    node = Node()
    node.lead()
    node.at(5000)
    node.fetch(9, 0, 0)
    node.fetch(2, 0, 0, disk=1)
    node.at(6000)
    assert node.role == "Resigned"


def test_a_fetch_of_a_snapshot_keeps_it() -> None:
    node = Node()
    node.lead()
    node.at(5000)
    node.request(FetchSnapshotRequest(voter(2).key, 1, SnapshotId(7, 1), 0))
    node.at(6000)
    assert node.role == "Leader"


def test_a_fetch_that_waits_counts_once() -> None:
    """A fetch that expires at a leader that is cut off does not prove that its follower is still there."""
    node = Node()
    node.lead()
    node.at(5000)
    assert node.fetch(2, 3, 1, wait_ms=500, high_watermark=3) is None
    node.at(5500)
    assert node.role == "Leader"
    node.at(8000)
    assert node.role == "Resigned"


# Resigning


def test_a_resigned_leader_names_its_successors() -> None:
    node = Node()
    node.lead()
    node.fetch(3, 3, 1)
    node.request(Resign(1))
    assert node.role == "Resigned"
    # The file still names it: after a restart it does not stand in this epoch again.
    assert not any(isinstance(entry, StoreElection) for entry in node.persisted())
    request = EndQuorumEpochRequest(leader_of(1, 1), (voter(3).key, voter(2).key))
    assert node.sent() == {2: request, 3: request}
    node.respond(2, EndQuorumEpochResponse(leader_of(1, 1)))
    node.respond(3, None)
    assert node.sent() == {}
    node.at(3020)
    assert node.sent() == {3: request}


def test_another_epoch_is_not_resigned() -> None:
    node = Node()
    node.lead()
    node.request(Resign(7))
    assert node.role == "Leader"


def test_a_resigned_leader_stands_again_in_the_next_epoch() -> None:
    node = Node()
    node.lead()
    node.request(Resign(1))
    node.at(4000)
    # Its time is over: it asks for pre-votes at once.
    assert (node.role, node.raft.epoch) == ("Prospective", 2)


def test_a_restarted_leader_has_resigned() -> None:
    node = Node(election=ElectionState(4, 1))
    assert node.role == "Resigned"
    assert node.sent() == {i: EndQuorumEpochRequest(leader_of(4, 1)) for i in (2, 3)}
    assert node.raft.leader_id == -1


def test_shutdown_hands_over_unless_it_is_alone() -> None:
    node = Node()
    node.lead()
    response = node.request(Shutdown())
    assert response is None
    assert node.role == "Resigned"
    node.at(60_000)
    assert node.role == "Resigned"
    alone = Node(voter_set=voters(1))
    alone.request(Shutdown())
    assert alone.role == "Leader"


def test_waiting_requests_are_answered_when_the_leader_resigns() -> None:
    node = Node()
    node.lead()
    assert node.fetch(2, 3, 1, wait_ms=500, high_watermark=3) is None
    reply = node.request(Resign(1))
    assert reply == FetchResponse(leader_of(1), ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_leader_of_a_larger_epoch_ends_its_own() -> None:
    node = Node()
    node.lead()
    node.respond(2, BeginQuorumEpochResponse(leader_of(3, 2), ErrorCode.FENCED_LEADER_EPOCH))
    assert (node.role, node.raft.epoch, node.raft.leader_id) == ("Follower", 3, 2)
    assert isinstance(node.sent()[2], FetchRequest)


def test_messages_about_its_own_past_are_ignored() -> None:
    node = Node(election=ElectionState(4, 1))
    node.at(1000)
    node.respond(2, VoteResponse(leader_of(5, 1), False))
    assert node.role == "Prospective"
