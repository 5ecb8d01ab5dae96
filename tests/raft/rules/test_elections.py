"""Elections: one vote an epoch, for a complete log only, and pre-votes (KIP-595, KIP-853, KIP-996)."""

from __future__ import annotations

import pytest

from barnabas.base.effects import Persist, Reply
from barnabas.base.errors import ErrorCode
from barnabas.raft.log import OffsetAndEpoch
from barnabas.raft.messages import LeaderChanged, Shutdown, StoreElection
from barnabas.raft.quorum_state_file import ElectionState
from barnabas.raft.rpc import FetchRequest, LeaderAndEpoch, VoteRequest, VoteResponse
from barnabas.raft.voters import ReplicaKey
from tests.raft.harness import Node, leader_of, vote_request, voter, voters


def _vote(node: Node, request: VoteRequest) -> tuple[ErrorCode, bool]:
    response = node.request(request)
    assert isinstance(response, VoteResponse)
    return response.error, response.granted


# Votes


def test_a_vote_is_persisted_before_it_is_answered() -> None:
    node = Node()
    assert _vote(node, vote_request(2, 1)) == (ErrorCode.NONE, True)
    kinds = [type(effect) for effect in node.effects if isinstance(effect, Persist | Reply)]
    assert kinds == [Persist, Persist, Reply]
    stored = node.persisted()[-1]
    assert isinstance(stored, StoreElection)
    assert stored.state == ElectionState(1, -1, 2, voter(2).directory_id)


def test_one_vote_an_epoch() -> None:
    node = Node()
    assert _vote(node, vote_request(2, 1)) == (ErrorCode.NONE, True)
    assert _vote(node, vote_request(3, 1)) == (ErrorCode.NONE, False)
    # The answer may have been lost.
    assert _vote(node, vote_request(2, 1)) == (ErrorCode.NONE, True)
    assert _vote(node, vote_request(3, 2)) == (ErrorCode.NONE, True)


def test_a_vote_for_a_node_is_none_for_the_same_node_with_another_disk() -> None:
    node = Node()
    assert _vote(node, vote_request(2, 1))[1]
    other = VoteRequest(voter(2, disk=1).key, 1, OffsetAndEpoch(0, 0))
    assert not _vote(node, other)[1]


def test_a_vote_survives_a_restart() -> None:
    node = Node(election=ElectionState(1, -1, 2, voter(2).directory_id))
    assert not _vote(node, vote_request(3, 1))[1]
    assert _vote(node, vote_request(2, 1))[1]


@pytest.mark.parametrize(
    ("last", "granted"),
    [((5, 2), True), ((4, 2), False), ((9, 1), False), ((1, 3), True), ((6, 2), True)],
)
def test_the_later_epoch_wins_then_the_longer_log(last: tuple[int, int], granted: bool) -> None:
    # Raft, section 5.4.1
    for pre_vote in (False, True):
        node = Node(end=5, epochs=[(1, 0), (2, 3)])
        request = vote_request(2, 4, OffsetAndEpoch(*last), pre_vote=pre_vote)
        assert _vote(node, request) == (ErrorCode.NONE, granted)


def test_no_vote_against_a_known_leader_of_the_epoch() -> None:
    node = Node()
    node.follow(2, 1)
    assert _vote(node, vote_request(3, 1)) == (ErrorCode.NONE, False)
    assert _vote(node, vote_request(3, 2)) == (ErrorCode.NONE, True)


def test_a_candidate_and_a_leader_vote_for_nobody_else() -> None:
    node = Node()
    node.stand()
    assert _vote(node, vote_request(3, 1)) == (ErrorCode.NONE, False)
    node.vote(2)
    assert node.role == "Leader"
    assert _vote(node, vote_request(3, 1)) == (ErrorCode.NONE, False)


@pytest.mark.parametrize(
    "request_",
    [
        vote_request(2, 1, OffsetAndEpoch(-1, 0)),
        vote_request(2, 1, OffsetAndEpoch(0, -1)),
        # A log has no record of the epoch that the candidate only wants to lead; a pre-vote is of its own epoch.
        vote_request(2, 1, OffsetAndEpoch(1, 1)),
        vote_request(2, 1, OffsetAndEpoch(1, 2), pre_vote=True),
        VoteRequest(ReplicaKey(-1), 1, OffsetAndEpoch(0, 0)),
    ],
)
def test_invalid_requests(request_: VoteRequest) -> None:
    assert _vote(Node(), request_) == (ErrorCode.INVALID_REQUEST, False)


def test_an_old_epoch_is_fenced() -> None:
    node = Node(election=ElectionState(5))
    assert _vote(node, vote_request(2, 4)) == (ErrorCode.FENCED_LEADER_EPOCH, False)
    response = node.request(vote_request(2, 4, pre_vote=True))
    assert response == VoteResponse(LeaderAndEpoch(5), False, ErrorCode.FENCED_LEADER_EPOCH)


def test_a_vote_that_is_meant_for_another_replica() -> None:
    # cluster.md 20; KIP-853: the epoch is taken over all the same.
    node = Node()
    request = vote_request(2, 1, for_voter=voter(1, disk=7).key)
    assert _vote(node, request) == (ErrorCode.INVALID_VOTER_KEY, False)
    assert node.raft.epoch == 1
    assert _vote(node, vote_request(2, 1, for_voter=voter(3).key))[0] is ErrorCode.INVALID_VOTER_KEY
    # Without a directory id any disk is meant.
    assert _vote(node, vote_request(2, 1, for_voter=ReplicaKey(1))) == (ErrorCode.NONE, True)


def test_an_observer_votes_too() -> None:
    # KIP-853: it may be a voter of a log that it has not fetched yet.
    node = Node(me=voter(9))
    assert _vote(node, vote_request(2, 1)) == (ErrorCode.NONE, True)


# Pre-votes


def test_a_pre_vote_changes_nothing() -> None:
    node = Node()
    assert _vote(node, vote_request(2, 0, pre_vote=True)) == (ErrorCode.NONE, True)
    assert node.persisted() == []
    assert _vote(node, vote_request(3, 0, pre_vote=True)) == (ErrorCode.NONE, True)


def test_a_pre_vote_of_a_larger_epoch_brings_the_epoch() -> None:
    node = Node()
    assert _vote(node, vote_request(2, 3, pre_vote=True)) == (ErrorCode.NONE, True)
    assert node.raft.epoch == 3


def test_a_follower_that_reaches_its_leader_refuses_pre_votes() -> None:
    node = Node()
    node.follow(2, 1)
    # It has not fetched yet.
    assert _vote(node, vote_request(3, 1, pre_vote=True))[1]
    role = node.raft.role
    role.has_fetched = True  # type: ignore[union-attr]
    assert not _vote(node, vote_request(3, 1, pre_vote=True))[1]


def test_an_observer_that_has_lost_its_leader_grants_pre_votes() -> None:
    """Found by raft-quorum: it may have been added without knowing it, and its vote be needed."""
    node = Node(me=voter(9))
    node.follow(2, 1)
    node.raft.role.has_fetched = True  # type: ignore[union-attr]
    assert not _vote(node, vote_request(3, 1, pre_vote=True))[1]
    node.at(2000)
    assert node.role == "Follower"
    assert _vote(node, vote_request(3, 1, pre_vote=True))[1]


def test_leaders_refuse_pre_votes_and_the_others_grant_them() -> None:
    node = Node()
    node.at(1000)
    assert node.role == "Prospective"
    assert _vote(node, vote_request(3, 0, pre_vote=True))[1]
    node.vote(2)
    assert node.role == "Candidate"
    assert _vote(node, vote_request(3, 1, pre_vote=True))[1]
    node.vote(2)
    assert not _vote(node, vote_request(3, 1, pre_vote=True))[1]
    resigned = Node(election=ElectionState(1, 1))
    assert resigned.role == "Resigned"
    assert _vote(resigned, vote_request(3, 1, pre_vote=True))[1]


# Standing


def test_a_voter_asks_for_pre_votes_and_then_for_votes() -> None:
    node = Node(end=3, epochs=[(1, 0)], election=ElectionState(1))
    node.at(999)
    assert node.role == "Unattached"
    node.at(1000)
    last = OffsetAndEpoch(3, 1)
    expected = {i: VoteRequest(voter(1).key, 1, last, True, voter(i).key) for i in (2, 3)}
    assert node.sent() == expected
    node.vote(3)
    assert node.role == "Candidate"
    stored = node.persisted()[0]
    assert isinstance(stored, StoreElection)
    assert stored.state == ElectionState(2, -1, 1, voter(1).directory_id)
    assert node.sent() == {i: VoteRequest(voter(1).key, 2, last, False, voter(i).key) for i in (2, 3)}
    node.vote(3)
    assert node.role == "Leader"
    assert LeaderChanged(2, 1, voter(1).endpoints) in node.applied()


def test_a_refused_pre_vote_waits_for_the_next_timeout() -> None:
    node = Node()
    node.at(1000)
    node.vote(2, granted=False)
    assert node.role == "Prospective"
    node.vote(3, granted=False)
    assert (node.role, node.raft.epoch) == ("Unattached", 0)
    node.at(1999)
    assert node.role == "Unattached"
    node.at(2000)
    assert node.role == "Prospective"


def test_a_prospective_node_without_answers_asks_again() -> None:
    node = Node()
    node.at(1000)
    node.at(2000)
    assert node.role == "Prospective"
    assert all(isinstance(each, VoteRequest) and each.pre_vote for each in node.sent().values())


def test_a_prospective_node_returns_to_the_leader_that_it_knows() -> None:
    # KIP-996, cluster.md 26
    node = Node()
    node.follow(3, 1)
    node.at(2000)
    assert node.role == "Prospective"
    response = VoteResponse(leader_of(1, 3), False)
    node.respond(2, response)
    node.respond(3, response)
    assert node.role == "Follower"
    assert node.raft.leader_id == 3


def test_a_candidate_that_lost_waits_for_its_timeout() -> None:
    node = Node()
    node.stand()
    node.vote(2, granted=False)
    node.vote(3, granted=False)
    assert node.role == "Candidate"
    node.at(4999)
    node.at(5500)
    assert (node.role, node.raft.epoch) == ("Prospective", 1)


def test_a_vote_of_the_past_does_not_count() -> None:
    node = Node()
    node.at(1000)
    node.respond(2, VoteResponse(LeaderAndEpoch(0), True))
    assert node.role == "Candidate"
    # The pre-vote of node 3, which is still under way.
    node._in_flight[3] = 2
    node.respond(3, VoteResponse(LeaderAndEpoch(0), True))
    assert node.role == "Candidate"


def test_a_larger_epoch_ends_a_candidacy() -> None:
    node = Node()
    node.stand()
    node.respond(2, VoteResponse(LeaderAndEpoch(7), False, ErrorCode.FENCED_LEADER_EPOCH))
    assert (node.role, node.raft.epoch) == ("Unattached", 7)


def test_a_response_names_the_leader() -> None:
    node = Node()
    node.stand()
    node.respond(2, VoteResponse(leader_of(1, 3), False))
    assert (node.role, node.raft.leader_id) == ("Follower", 3)


def test_a_voter_without_pre_vote_makes_a_candidate_at_once() -> None:
    # KIP-996: as Apache Kafka 4.1, which elects as the older release does.
    node = Node()
    node.at(1000)
    node.respond(2, VoteResponse(LeaderAndEpoch(0), False, ErrorCode.UNSUPPORTED_VERSION))
    assert node.role == "Candidate"
    assert node.raft.epoch == 1
    # A candidate counts it neither way.
    node.respond(2, VoteResponse(LeaderAndEpoch(1), False, ErrorCode.UNSUPPORTED_VERSION))
    assert node.role == "Candidate"


def test_the_time_that_is_left_until_an_election_is_kept() -> None:
    """Candidates that cannot win do not keep the others from standing, as in Apache Kafka 4.1."""
    node = Node(end=5, epochs=[(1, 0)], election=ElectionState(1))
    node.at(900)
    for epoch in range(2, 9):
        assert not _vote(node, vote_request(3, epoch))[1]
    assert node.role == "Unattached"
    node.at(1000)
    assert node.role == "Prospective"


def test_a_node_that_shuts_down_does_not_stand() -> None:
    node = Node()
    node.request(Shutdown())
    node.at(1000)
    assert node.role == "Unattached"


def test_only_voters_of_the_log_are_counted() -> None:
    node = Node(voter_set=voters(1, 2, 3, 4, 5))
    node.at(1000)
    node.vote(2)
    assert node.role == "Prospective"
    node.vote(4)
    assert node.role == "Candidate"


def test_an_unattached_voter_looks_for_the_leader() -> None:
    # Apache Kafka 4.1: it need not wait for an election if there is a leader already.
    node = Node()
    assert list(node.sent()) == [2]
    request = node.sent()[2]
    assert isinstance(request, FetchRequest)
    node.respond(2, None)
    assert list(node.sent()) == [3]
