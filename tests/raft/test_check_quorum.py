"""A leader that loses its majority resigns (KAFKA-15489), but not because another voter is added."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.raft.rpc import (
    AddVoterRequest,
    RemoveVoterRequest,
    SupportedVersionsRequest,
    SupportedVersionsResponse,
    VoterChangeResponse,
)
from barnabas.raft.voters import ReplicaKey, Voters
from tests.raft.leader_lab import SECOND_NS, LeaderLab, described, directory


def test_the_first_other_voter_has_time_to_fetch() -> None:
    """A leader without other voters resigned as soon as one was added: no majority had fetched for long."""
    lab = LeaderLab(kraft_version=1, voters=Voters([described(1)]))
    observer = ReplicaKey(2, directory(2))
    lab.wait(60 * SECOND_NS)
    lab.fetch(observer)
    lab.request(AddVoterRequest(described(2), SECOND_NS), "add")
    ((sender, asked),) = lab.take(SupportedVersionsRequest)
    lab.respond(asked, sender, SupportedVersionsResponse(0, 1))
    assert lab.node.is_leader
    lab.fetch(observer)
    response = lab.replies["add"]
    assert isinstance(response, VoterChangeResponse)
    assert response.error is ErrorCode.NONE
    assert lab.node.voters.ids == (1, 2)
    # From now on it needs the other one.
    lab.wait(3 * SECOND_NS - 1)
    assert lab.node.is_leader
    lab.wait(1)
    assert not lab.node.is_leader


def test_a_voter_that_was_removed_is_no_part_of_a_majority() -> None:
    """Its fetch was counted after its removal: the leader stayed for longer than it may."""
    lab = LeaderLab(kraft_version=1, voters=Voters(map(described, (1, 2, 3, 4, 5))))
    lab.fetch(ReplicaKey(2, directory(2)))
    lab.fetch(ReplicaKey(3, directory(3)))
    lab.wait(2 * SECOND_NS)
    lab.fetch(ReplicaKey(5, directory(5)))
    lab.request(RemoveVoterRequest(ReplicaKey(5, directory(5))), "remove")
    assert lab.node.voters.ids == (1, 2, 3, 4)
    lab.fetch(ReplicaKey(2, directory(2)))
    # Two of the other three are needed; only one has fetched since a majority last did.
    lab.wait(SECOND_NS)
    assert not lab.node.is_leader
