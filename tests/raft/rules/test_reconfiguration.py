"""AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter at the leader, with Apache Kafka's errors (KIP-853)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.records.control import VotersRecord
from barnabas.raft.messages import AppendBatch, ControlRecords, Resign
from barnabas.raft.rpc import (
    AddVoterRequest,
    BeginQuorumEpochResponse,
    RemoveVoterRequest,
    SupportedVersionsRequest,
    SupportedVersionsResponse,
    UpdateVoterRequest,
    VoterChangeResponse,
)
from barnabas.raft.voters import ReplicaKey, Voter, VoterEndpoint, Voters
from tests.raft.harness import MS, Node, leader_of, voter, voters

ADD = AddVoterRequest(voter(4), 60_000 * MS)
REMOVE = RemoveVoterRequest(voter(3).key)
MOVED = replace(voter(2), endpoints=(VoterEndpoint("CONTROLLER", "elsewhere", 9093),))


def _leader(*, is_committed: bool = True, **loaded: object) -> Node:
    node = Node(**loaded)  # type: ignore[arg-type]
    node.lead()
    for peer_id in (2, 3):
        node.respond(peer_id, BeginQuorumEpochResponse(leader_of(1, 1)))
    if is_committed:
        node.fetch(2, node.raft.end_offset, 1)
        assert node.raft.high_watermark == node.raft.end_offset
    return node


def _error(response: object) -> ErrorCode:
    assert isinstance(response, VoterChangeResponse)
    return response.error


def _message(response: object) -> str | None:
    assert isinstance(response, VoterChangeResponse)
    return response.message


def _written(node: Node) -> Voters:
    (batch,) = [entry for entry in node.persisted() if isinstance(entry, AppendBatch)]
    assert isinstance(batch.records, ControlRecords)
    (record,) = batch.records.messages
    assert isinstance(record, VotersRecord)
    return Voters.of_record(record)


def _added(node: Node) -> None:
    """Node 4 is asked for its versions, and responds."""
    node.fetch(4, 3, 1)
    assert node.request(ADD) is None
    assert node.sent() == {4: SupportedVersionsRequest(voter(4))}
    node.respond(4, SupportedVersionsResponse(0, 1))


# What every change needs


@pytest.mark.parametrize("request_", [ADD, REMOVE, UpdateVoterRequest(0, MOVED)])
def test_only_the_leader_changes_voters(request_: object) -> None:
    assert _error(Node().request(request_)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("request_", [ADD, REMOVE, UpdateVoterRequest(1, MOVED)])
def test_a_leader_that_has_committed_nothing_yet(request_: object) -> None:
    response = _leader(is_committed=False).request(request_)
    assert _error(response) is ErrorCode.REQUEST_TIMED_OUT
    text = "Request timed out waiting for leader to establish HWM and fence previous voter changes"
    assert _message(response) == text


@pytest.mark.parametrize("request_", [ADD, REMOVE])
def test_a_static_quorum(request_: object) -> None:
    """Its voters do describe themselves to the leader: see test_version_upgrade.py."""
    response = _leader(kraft_version=0).request(request_)
    assert _error(response) is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("request_", [ADD, REMOVE, UpdateVoterRequest(1, MOVED)])
def test_one_change_at_a_time(request_: object) -> None:
    node = _leader()
    assert node.request(RemoveVoterRequest(voter(2).key)) is None
    response = node.request(request_)
    assert _error(response) is ErrorCode.REQUEST_TIMED_OUT
    text = "Request timed out waiting for leader to handle previous voter change request"
    assert _message(response) == text


def test_a_change_that_is_not_committed_yet() -> None:
    node = _leader()
    assert _error(node.request(UpdateVoterRequest(1, MOVED))) is ErrorCode.NONE
    response = node.request(REMOVE)
    assert _error(response) is ErrorCode.REQUEST_TIMED_OUT
    text = "Request timed out waiting for voters to commit the latest voter change at Optional[3] with HWM 3"
    assert _message(response) == text


@pytest.mark.parametrize(
    "request_",
    [
        AddVoterRequest(replace(voter(4), directory_id=ZERO_UUID), 0),
        AddVoterRequest(Voter(4, voter(4).directory_id), 0),
        RemoveVoterRequest(ReplicaKey(3)),
        RemoveVoterRequest(ReplicaKey(-1, voter(3).directory_id)),
        UpdateVoterRequest(1, replace(MOVED, directory_id=ZERO_UUID)),
        UpdateVoterRequest(1, replace(MOVED, endpoints=())),
        UpdateVoterRequest(1, replace(MOVED, lowest_version=1, highest_version=0)),
        UpdateVoterRequest(1, replace(MOVED, lowest_version=-1)),
        # Not the version that is in use.
        UpdateVoterRequest(1, replace(MOVED, lowest_version=0, highest_version=0)),
    ],
)
def test_invalid_requests(request_: object) -> None:
    assert _error(_leader().request(request_)) is ErrorCode.INVALID_REQUEST


# Adding


def test_a_voter_is_added_when_the_change_is_committed() -> None:
    node = _leader()
    _added(node)
    assert _written(node).ids == (1, 2, 3, 4)
    # It counts at once: three of four are needed.
    node.fetch(2, 4, 1)
    assert node.raft.high_watermark == 3
    node.fetch(4, 4, 1)
    assert node.raft.high_watermark == 4
    assert VoterChangeResponse(leader_of(1, 1)) in [getattr(each, "message", None) for each in node.effects]


def test_an_answer_need_not_wait_for_the_commit() -> None:
    node = _leader()
    node.fetch(4, 3, 1)
    node.request(replace(ADD, ack_when_committed=False))
    effects = node.respond(4, SupportedVersionsResponse(0, 1))
    assert VoterChangeResponse(leader_of(1, 1)) in [getattr(each, "message", None) for each in effects]


def test_a_voter_of_the_same_id_must_be_removed_first() -> None:
    response = _leader().request(AddVoterRequest(voter(3, disk=1), 0))
    assert _error(response) is ErrorCode.DUPLICATE_VOTER
    assert "is already part of the set of voters" in str(_message(response))


def test_a_voter_that_lags_behind_is_not_added() -> None:
    node = _leader()
    node.request(ADD)
    effects = node.respond(4, SupportedVersionsResponse(0, 1))
    (response,) = [each.message for each in effects if getattr(each, "to", None) == "request"]  # type: ignore[union-attr]
    assert _error(response) is ErrorCode.REQUEST_TIMED_OUT
    assert str(_message(response)).endswith("since it is lagging behind")
    assert node.raft.voters == voters(1, 2, 3)


@pytest.mark.parametrize(
    ("versions", "error"),
    [
        (None, ErrorCode.REQUEST_TIMED_OUT),
        (SupportedVersionsResponse(0, 1, ErrorCode.UNKNOWN_SERVER_ERROR), ErrorCode.REQUEST_TIMED_OUT),
        (SupportedVersionsResponse(0, 0), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_voter_that_cannot_be_added(versions: SupportedVersionsResponse | None, error: ErrorCode) -> None:
    node = _leader()
    node.fetch(4, 3, 1)
    node.request(ADD)
    effects = node.respond(4, versions)
    (response,) = [each.message for each in effects if getattr(each, "to", None) == "request"]  # type: ignore[union-attr]
    assert _error(response) is error


def test_a_voter_that_does_not_respond_in_time() -> None:
    node = _leader()
    node.request(ADD)
    effects = node.at(5000)
    (response,) = [each.message for each in effects if getattr(each, "to", None) == "request"]  # type: ignore[union-attr]
    assert _error(response) is ErrorCode.REQUEST_TIMED_OUT
    # A response after that changes nothing.
    node.respond(4, SupportedVersionsResponse(0, 1))
    assert node.raft.voters == voters(1, 2, 3)


def test_a_new_voter_that_is_busy() -> None:
    node = _leader()
    node.raft.quorum.requests.sent(4, node.now_ns)
    response = node.request(ADD)
    assert _error(response) is ErrorCode.REQUEST_TIMED_OUT
    assert str(_message(response)).endswith("is not ready to receive requests")


# Removing


def test_a_voter_is_removed() -> None:
    node = _leader()
    assert node.request(REMOVE) is None
    assert _written(node).ids == (1, 2)
    node.fetch(2, 4, 1)
    assert VoterChangeResponse(leader_of(1, 1)) in [getattr(each, "message", None) for each in node.effects]
    assert node.role == "Leader"


def test_what_is_no_voter_is_not_removed() -> None:
    node = _leader()
    for key in (voter(4).key, voter(3, disk=1).key):
        response = node.request(RemoveVoterRequest(key))
        assert _error(response) is ErrorCode.VOTER_NOT_FOUND
        assert str(_message(response)).startswith("Cannot remove voter")


def test_a_leader_leads_until_its_removal_is_committed_by_the_others() -> None:
    # cluster.md 19; KAFKA-16530, KAFKA-17608: the high watermark never falls.
    node = _leader()
    node.request(RemoveVoterRequest(voter(1).key))
    assert node.raft.voters.ids == (2, 3)
    node.fetch(2, 4, 1)
    assert node.raft.high_watermark == 3
    assert node.role == "Leader"
    node.fetch(3, 4, 1)
    assert node.role == "Resigned"
    assert node.raft.high_watermark == 4


def test_a_voter_that_is_being_removed_stands_until_that_is_committed() -> None:
    """Found by raft-quorum: its log may be the only complete one (Raft dissertation, section 4.2.2)."""
    node = _leader()
    node.request(RemoveVoterRequest(voter(1).key))
    node.request(Resign(1))
    node.at(4000)
    assert (node.role, node.raft.epoch) == ("Prospective", 2)
    # Its own vote does not count.
    node.vote(2)
    assert node.role == "Prospective"
    node.vote(3)
    node.vote(2)
    node.vote(3)
    assert node.role == "Leader"
    # It does not write itself back into the voters.
    assert node.raft.voters.ids == (2, 3)


def test_a_removal_that_does_not_commit_in_time() -> None:
    node = _leader()
    node.request(REMOVE)
    effects = node.at(5000)
    errors = [each.message.error for each in effects if getattr(each, "to", None) == "request"]  # type: ignore[union-attr]
    assert errors == [ErrorCode.REQUEST_TIMED_OUT]
    # It stays in the log.
    assert node.raft.voters.ids == (1, 2)


def test_a_change_is_answered_when_the_leader_resigns() -> None:
    node = _leader()
    node.request(REMOVE)
    assert _error(node.request(Resign(1))) is ErrorCode.NOT_LEADER_OR_FOLLOWER


# Updating


def test_a_voter_that_moved_is_written() -> None:
    node = _leader()
    assert node.request(UpdateVoterRequest(1, MOVED)) == VoterChangeResponse(leader_of(1, 1))
    assert _written(node).get(2) == MOVED


def test_an_update_names_the_epoch() -> None:
    node = _leader()
    assert _error(node.request(UpdateVoterRequest(0, MOVED))) is ErrorCode.FENCED_LEADER_EPOCH
    assert _error(node.request(UpdateVoterRequest(2, MOVED))) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_an_update_of_no_voter_and_of_nothing() -> None:
    node = _leader()
    other = replace(MOVED, directory_id=voter(2, disk=1).directory_id)
    assert _error(node.request(UpdateVoterRequest(1, other))) is ErrorCode.VOTER_NOT_FOUND
    assert _error(node.request(UpdateVoterRequest(1, voter(2)))) is ErrorCode.NONE
    assert node.persisted() == []
