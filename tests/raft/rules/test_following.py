"""Followers and observers: fetching, truncation, snapshots, and the voter that describes itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.protocol.records.control import KRaftVersionRecord
from barnabas.raft.log import OffsetAndEpoch
from barnabas.raft.messages import (
    AppendFetched,
    HighWatermark,
    InstallSnapshot,
    LeaderChanged,
    Shutdown,
    SnapshotInstalled,
    StoreElection,
    TruncateLog,
    WriteSnapshotChunk,
)
from barnabas.raft.quorum import CommittedLogLost
from barnabas.raft.quorum_state_file import ElectionState
from barnabas.raft.roles import Follower
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
    VoteResponse,
)
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voters import NO_VOTERS, Voter, VoterEndpoint, Voters
from tests.raft.harness import MS, OPTIONS, Node, leader_of, vote_request, voter, voters

LEADER = leader_of(1, 2)


def _follower(**loaded: object) -> Node:
    node = Node(**loaded)  # type: ignore[arg-type]
    node.follow(2, max(1, node.raft.epoch))
    return node


def _batch(start: int, end: int, epoch: int = 1) -> FetchedBatch:
    return FetchedBatch(start, end, epoch, b"data")


def _fetched(node: Node, *batches: FetchedBatch, high_watermark: int = -1) -> None:
    leader = leader_of(node.raft.epoch, 2)
    node.respond(2, FetchResponse(leader, high_watermark=high_watermark, batches=batches))


def _role(node: Node) -> Follower:
    role = node.raft.role
    assert isinstance(role, Follower)
    return role


# The leader makes itself known


def test_begin_quorum_epoch_makes_a_follower_after_it_is_persisted() -> None:
    node = Node()
    response = node.request(BeginQuorumEpochRequest(LEADER, voter(1).key))
    assert response == BeginQuorumEpochResponse(LEADER)
    assert [type(entry) for entry in node.persisted()] == [StoreElection]
    assert LeaderChanged(1, 2, voter(2).endpoints) in node.applied()
    assert node.sent() == {2: FetchRequest(voter(1).key, 1, 0, 0, 500 * MS, -1)}


@pytest.mark.parametrize("kind", [BeginQuorumEpochRequest, EndQuorumEpochRequest])
def test_old_and_invalid_announcements(kind: type) -> None:
    node = Node(election=ElectionState(5))
    response = node.request(kind(leader_of(4, 2)))
    assert response.error is ErrorCode.FENCED_LEADER_EPOCH  # type: ignore[attr-defined]
    response = node.request(kind(LeaderAndEpoch(5, -1)))
    assert response.error is ErrorCode.INVALID_REQUEST  # type: ignore[attr-defined]
    assert node.role == "Unattached"


def test_an_announcement_for_another_replica_still_names_the_leader() -> None:
    # KIP-853
    node = Node()
    response = node.request(BeginQuorumEpochRequest(LEADER, voter(1, disk=1).key))
    assert response == BeginQuorumEpochResponse(LEADER, ErrorCode.INVALID_VOTER_KEY)
    assert node.role == "Follower"


def test_the_endpoints_come_from_the_voters_if_the_message_has_none() -> None:
    node = Node()
    node.request(BeginQuorumEpochRequest(LeaderAndEpoch(1, 2)))
    assert _role(node).leader_endpoints == voter(2).endpoints
    unknown = Node()
    unknown.request(BeginQuorumEpochRequest(LeaderAndEpoch(1, 9)))
    assert (unknown.role, unknown.raft.epoch) == ("Unattached", 1)


def test_more_endpoints_of_the_leader_are_taken_over() -> None:
    node = _follower()
    endpoints = (*voter(2).endpoints, VoterEndpoint("OTHER", "node2", 9094))
    node.request(BeginQuorumEpochRequest(LeaderAndEpoch(1, 2, endpoints)))
    assert _role(node).leader_endpoints == endpoints


@pytest.mark.parametrize(
    ("candidates", "backoff_ms"),
    [((1, 3), 0), ((3, 1), 500), ((3, 4, 1), 500), ((3, 4), 1000), ((), 0)],
)
def test_successors_stand_one_after_the_other(candidates: tuple[int, ...], backoff_ms: int) -> None:
    """Without any successors all of them stand at once, as in Apache Kafka."""
    node = _follower()
    keys = tuple(voter(node_id).key for node_id in candidates)
    response = node.request(EndQuorumEpochRequest(LEADER, keys))
    assert isinstance(response, EndQuorumEpochResponse)
    assert response.error is ErrorCode.NONE
    if backoff_ms:
        assert _role(node).deadline_ns == backoff_ms * MS
    else:
        assert node.role == "Prospective"


def test_a_follower_whose_leader_resigned_supports_another_successor() -> None:
    """KIP-996: it refused until its own turn, so that an election waited for the slowest follower."""
    node = _follower()
    _fetched(node)
    request = vote_request(candidate=3, epoch=1, pre_vote=True)
    assert isinstance(response := node.request(request), VoteResponse)
    assert not response.granted
    node.request(EndQuorumEpochRequest(LEADER, (voter(3).key, voter(1).key)))
    assert isinstance(response := node.request(request), VoteResponse)
    assert response.granted
    assert node.role == "Follower"


# Fetching


def test_fetched_batches_are_persisted_before_the_next_fetch() -> None:
    node = _follower()
    _fetched(node, _batch(0, 2), _batch(2, 3), high_watermark=2)
    assert node.persisted() == [AppendFetched(_batch(0, 2)), AppendFetched(_batch(2, 3))]
    assert node.applied() == [HighWatermark(2)]
    assert node.sent() == {2: FetchRequest(voter(1).key, 1, 3, 1, 500 * MS, 2)}
    kinds = [type(effect).__name__ for effect in node.effects]
    assert kinds.index("Send") > max(index for index, kind in enumerate(kinds) if kind == "Persist")


def test_the_high_watermark_is_never_beyond_the_log_and_never_falls() -> None:
    node = _follower()
    _fetched(node, _batch(0, 2), high_watermark=9)
    assert node.raft.high_watermark == 2
    _fetched(node, high_watermark=1)
    assert node.raft.high_watermark == 2
    assert node.applied() == []


def test_batches_that_do_not_continue_the_log_are_ignored() -> None:
    node = _follower(end=4, epochs=[(1, 0)], election=ElectionState(2))
    _fetched(node, _batch(2, 4), _batch(6, 8))
    assert node.persisted() == []
    # Of an epoch that this leader cannot have written, or that is before the last one.
    _fetched(node, _batch(4, 5, 3))
    _fetched(node, _batch(4, 5, 0))
    assert node.raft.end_offset == 4


def test_a_late_response_is_ignored() -> None:
    node = _follower()
    node.respond(2, FetchResponse(leader_of(0), batches=(_batch(0, 2),)))
    assert node.raft.end_offset == 0
    node.respond(2, FetchResponse(leader_of(1, 2), batches=(_batch(0, 2),)))
    assert node.raft.end_offset == 2
    node._in_flight[2] -= 1
    _fetched(node, _batch(2, 3))
    assert node.raft.end_offset == 2


def test_an_error_waits_before_the_next_fetch() -> None:
    node = _follower()
    node.respond(2, FetchResponse(LEADER, ErrorCode.UNKNOWN_SERVER_ERROR))
    assert 2 not in node.sent()
    node.now_ns = 20 * MS
    node.respond(3, FetchResponse(LEADER, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert list(node.sent()) == [2]


def test_while_the_leader_does_not_respond_the_others_are_asked() -> None:
    # Apache Kafka 4.1: a voter too.
    node = _follower()
    node.respond(2, None)
    assert list(node.sent()) == [3]
    node.respond(3, FetchResponse(leader_of(2, 3), ErrorCode.FENCED_LEADER_EPOCH))
    assert (node.role, node.raft.leader_id, node.raft.epoch) == ("Follower", 3, 2)


def test_a_fetch_without_a_response_expires() -> None:
    node = Node(me=voter(9), options=replace(OPTIONS, fetch_timeout_ns=9_000 * MS))
    node.follow(2, 1)
    node.at(2000)
    # Not the leader again, but whoever is next.
    assert len(node.sent()) == 1
    node.respond(next(iter(node.sent())), None)


def test_an_observer_without_a_leader_goes_round() -> None:
    node = Node(me=voter(9), voter_set=NO_VOTERS, options=replace(OPTIONS, bootstrap_ids=(-2, -3)))
    assert list(node.sent()) == [-2]
    node.respond(-2, None)
    assert list(node.sent()) == [-3]
    node.respond(-3, FetchResponse(LeaderAndEpoch(0), ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert node.sent() == {}
    node.at(20)
    assert list(node.sent()) == [-2]
    # The response names the leader, and may be its own.
    node.respond(-2, FetchResponse(LEADER, batches=(_batch(0, 1),)))
    assert node.raft.end_offset == 0
    assert (node.role, node.raft.leader_id) == ("Follower", 2)


def test_an_observer_that_loses_its_leader_asks_the_others_and_the_leader() -> None:
    node = Node(me=voter(9), voter_set=NO_VOTERS, options=replace(OPTIONS, bootstrap_ids=(-2,)))
    node.follow(2, 1)
    node.at(2000)
    assert node.role == "Follower"
    asked = set(node.sent())
    node.respond(next(iter(asked)), None)
    asked |= set(node.sent())
    assert asked == {2, -2}


def test_a_node_alone_without_addresses_waits() -> None:
    node = Node(me=voter(9), voter_set=NO_VOTERS)
    assert node.sent() == {}
    assert node.timers() == [2000 * MS]


# Timeouts


def test_a_voter_without_its_leader_stands() -> None:
    node = _follower()
    node.at(1999)
    assert node.role == "Follower"
    node.at(2000)
    assert (node.role, node.raft.leader_id) == ("Prospective", 2)


def test_every_fetch_postpones_it() -> None:
    node = _follower()
    node.now_ns = 1500 * MS
    _fetched(node)
    assert _role(node).has_fetched
    node.at(3499)
    assert node.role == "Follower"
    node.at(3500)
    assert node.role == "Prospective"


def test_a_follower_that_shuts_down_does_not_stand() -> None:
    node = _follower()
    node.request(Shutdown())
    node.at(9000)
    assert node.role == "Follower"


# Truncation


def test_a_diverging_log_is_truncated_and_its_high_watermark_kept() -> None:
    # KAFKA-14704: the high watermark of the same response does not count before.
    node = _follower(end=9, epochs=[(1, 0), (2, 5)], election=ElectionState(3))
    response = FetchResponse(leader_of(3, 2), high_watermark=9, diverging=OffsetAndEpoch(4, 1))
    node.respond(2, response)
    assert node.persisted() == [TruncateLog(4)]
    assert node.raft.high_watermark is None
    assert node.sent() == {2: FetchRequest(voter(1).key, 3, 4, 1, 500 * MS, -1)}


def test_committed_records_are_never_truncated() -> None:
    node = _follower()
    _fetched(node, _batch(0, 3), high_watermark=3)
    with pytest.raises(CommittedLogLost, match="truncation to offset 1"):
        node.respond(2, FetchResponse(LEADER, diverging=OffsetAndEpoch(1, 1)))
    node = _follower(start=5, end=8, epochs=[(1, 5)], snapshot=SnapshotId(5, 1), election=ElectionState(1))
    with pytest.raises(CommittedLogLost):
        node.respond(2, FetchResponse(leader_of(1, 2), diverging=OffsetAndEpoch(4, 1)))


def test_nothing_to_truncate() -> None:
    node = _follower(end=3, epochs=[(1, 0)], election=ElectionState(1))
    node.respond(2, FetchResponse(leader_of(1, 2), diverging=OffsetAndEpoch(7, 1)))
    assert node.persisted() == []


def test_truncated_voters_are_those_of_before() -> None:
    # KIP-853
    node = _follower()
    record = voters(1, 2).to_record()
    _fetched(node, FetchedBatch(0, 2, 1, b"", (KRaftVersionRecord(version=0, kraft_version=1), record)))
    assert node.raft.voters.ids == (1, 2)
    node.respond(2, FetchResponse(LEADER, diverging=OffsetAndEpoch(1, 1)))
    assert node.raft.voters.ids == (1, 2, 3)


# Snapshots

SNAPSHOT = SnapshotId(7, 1)


def _fetching() -> Node:
    node = _follower()
    node.respond(2, FetchResponse(LEADER, snapshot=SNAPSHOT))
    return node


def _chunk(position: int, data: bytes, size: int = 8) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(LEADER, snapshot=SNAPSHOT, position=position, size=size, data=data)


def test_a_snapshot_is_fetched_piece_by_piece_and_installed() -> None:
    node = _fetching()
    assert node.sent() == {2: FetchSnapshotRequest(voter(1).key, 1, SNAPSHOT, 0)}
    node.respond(2, _chunk(0, b"12345"))
    assert node.persisted() == [WriteSnapshotChunk(SNAPSHOT, 0, b"12345")]
    assert node.sent() == {2: FetchSnapshotRequest(voter(1).key, 1, SNAPSHOT, 5)}
    assert _role(node).has_fetched
    node.respond(2, _chunk(5, b"678"))
    assert node.persisted() == [WriteSnapshotChunk(SNAPSHOT, 5, b"678"), InstallSnapshot(SNAPSHOT)]
    assert node.sent() == {}
    node.request(SnapshotInstalled(SNAPSHOT, voters(1, 2), 1))
    assert node.applied() == [HighWatermark(7)]
    assert node.raft.voters == voters(1, 2)
    assert node.sent() == {2: FetchRequest(voter(1).key, 1, 7, 1, 500 * MS, 7)}


def test_a_snapshot_of_a_static_quorum_undoes_an_upgrade() -> None:
    """Found by raft-quorum: the voters of an upgrade that was never committed stayed."""
    node = _follower(kraft_version=0)
    upgrade = (KRaftVersionRecord(version=0, kraft_version=1), voters(1, 2).to_record())
    _fetched(node, FetchedBatch(0, 2, 1, b"", upgrade))
    assert (node.raft.kraft_version, node.raft.voters.ids) == (1, (1, 2))
    node.respond(2, FetchResponse(LEADER, snapshot=SNAPSHOT))
    node.respond(2, _chunk(0, b"12345678"))
    node.request(SnapshotInstalled(SNAPSHOT, NO_VOTERS, 0))
    assert (node.raft.kraft_version, node.raft.voters.ids) == (0, (1, 2, 3))


def test_a_damaged_snapshot_is_fetched_again_after_a_while() -> None:
    """It was fetched again at once, whole, for as long as the leader had no other one."""
    node = _fetching()
    for delay_ms in (20, 40, 80, 160, 320, 640, 1280, 2000, 2000):
        node.respond(2, _chunk(0, b"12345678"))
        node.request(SnapshotInstalled(SNAPSHOT, None))
        assert node.raft.end_offset == 0
        assert node.sent() == {}
        assert _role(node).deadline_ns == node.now_ns + (delay_ms + 2000) * MS
        node.at(node.now_ns / MS + delay_ms - 1)
        assert node.sent() == {}
        node.at(node.now_ns / MS + 1)
        assert node.sent() == {2: FetchRequest(voter(1).key, 1, 0, 0, 500 * MS, -1)}
        node.respond(2, FetchResponse(LEADER, snapshot=SNAPSHOT))


@pytest.mark.parametrize("error", [ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE])
def test_a_deleted_snapshot_starts_over(error: ErrorCode) -> None:
    node = _fetching()
    node.respond(2, FetchSnapshotResponse(LEADER, error))
    assert _role(node).fetching is None


def test_other_errors_continue_where_it_was() -> None:
    node = _fetching()
    node.now_ns = 100 * MS
    node.respond(2, FetchSnapshotResponse(LEADER, ErrorCode.UNKNOWN_SERVER_ERROR))
    fetching = _role(node).fetching
    assert fetching is not None
    assert _role(node).deadline_ns == 2000 * MS


def test_another_snapshot_or_position_is_ignored() -> None:
    node = _fetching()
    node.respond(2, _chunk(3, b"xx"))
    node.respond(2, replace(_chunk(0, b"xx"), snapshot=SnapshotId(9, 1)))
    assert node.persisted() == []


def test_a_snapshot_that_it_has_is_not_fetched() -> None:
    node = _follower(start=7, end=7, snapshot=SNAPSHOT, election=ElectionState(1))
    node.respond(2, FetchResponse(leader_of(1, 2), snapshot=SNAPSHOT))
    assert isinstance(node.sent()[2], FetchRequest)


# The voter describes itself (KIP-853)

MOVED = Voter(1, voter(1).directory_id, (VoterEndpoint("CONTROLLER", "elsewhere", 9093),))


def _at_update(node: Node) -> None:
    """The fetch is answered, and the period is over."""
    node.now_ns = 2000 * MS - 1
    _fetched(node)
    node.now_ns = 2000 * MS
    _fetched(node)


def test_a_voter_that_has_moved_says_so() -> None:
    node = _follower(me=MOVED)
    _at_update(node)
    assert node.sent() == {2: UpdateVoterRequest(1, MOVED)}
    node.now_ns = 2100 * MS
    node.respond(2, VoterChangeResponse(LEADER))
    assert _role(node).has_updated_leader
    assert _role(node).deadline_ns == 4100 * MS
    assert isinstance(node.sent()[2], FetchRequest)


def test_a_refused_update_is_sent_again() -> None:
    node = _follower(me=MOVED)
    _at_update(node)
    node.respond(2, VoterChangeResponse(LEADER, ErrorCode.REQUEST_TIMED_OUT))
    assert not _role(node).has_updated_leader
    assert _role(node).update_voter_ns == 4000 * MS


def test_a_voter_that_is_described_well_says_nothing() -> None:
    node = _follower()
    _at_update(node)
    assert isinstance(node.sent()[2], FetchRequest)


def test_a_static_voter_describes_itself_once_to_each_leader() -> None:
    node = _follower(kraft_version=0)
    _at_update(node)
    assert node.sent() == {2: UpdateVoterRequest(1, voter(1))}
    node.respond(2, VoterChangeResponse(LEADER, ErrorCode.UNSUPPORTED_VERSION))
    assert _role(node).has_updated_leader
    node.now_ns = 3900 * MS
    node.respond(3, FetchResponse(LEADER, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    node.now_ns = 4000 * MS
    _fetched(node)
    assert isinstance(node.sent()[2], FetchRequest)


# Automatic joining (controller.quorum.auto.join.enable)

JOINING = replace(OPTIONS, auto_join=True)


def _joining(voter_set: Voters, me: Voter | None = None, **loaded: object) -> Node:
    node = _follower(me=me or voter(4), voter_set=voter_set, options=JOINING, **loaded)
    _at_update(node)
    return node


def test_an_observer_asks_to_be_added() -> None:
    # cluster.md 21
    node = _joining(voters(1, 2, 3))
    assert node.sent() == {2: AddVoterRequest(voter(4), 2000 * MS, ack_when_committed=False)}
    # Once a period, whatever the response is.
    node.respond(2, VoterChangeResponse(LEADER, ErrorCode.REQUEST_TIMED_OUT))
    assert _role(node).update_voter_ns == 4000 * MS


def test_the_voter_that_it_was_is_removed_first() -> None:
    # cluster.md 21
    node = _joining(voters(1, 2, 3), me=voter(3, disk=1))
    assert node.sent() == {2: RemoveVoterRequest(voter(3).key)}


def test_no_joining_in_a_static_quorum_or_without_the_option() -> None:
    node = _joining(voters(1, 2, 3), kraft_version=0)
    assert isinstance(node.sent()[2], FetchRequest)
    node = _follower(me=voter(4))
    _at_update(node)
    assert isinstance(node.sent()[2], FetchRequest)
