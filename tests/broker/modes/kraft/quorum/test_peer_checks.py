"""Nodes that are configured against each other: noticed, said once, and refused where that is safe."""

from __future__ import annotations

import logging

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.broker.modes.kraft.quorum.peer_checks import PeerChecks, ReplicaDirectories
from barnabas.protocol.records.control import LeaderChangeMessage
from barnabas.raft import ElectionState, LoadedQuorum, QuorumOptions, RaftLog, RaftNode, rpc
from barnabas.raft.voter_history import VoterHistory
from barnabas.raft.voters import DYNAMIC_QUORUM, ReplicaKey, Voter, Voters
from barnabas.runtime.network.network import Address
from barnabas.runtime.random import SeededRandom

PEER = Address("host", 9093)
EPOCH = 3


def raft_node(voters: tuple[int, ...] = (1, 2, 3), kraft_version: int = 0) -> RaftNode:
    history = VoterHistory(Voters(Voter(voter_id) for voter_id in voters), kraft_version)
    loaded = LoadedQuorum(ElectionState(EPOCH), history, RaftLog())
    return RaftNode(Voter(1), loaded, QuorumOptions(), SeededRandom(1))


class Checks:
    """The checks of node 1."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.checks = PeerChecks("ours", self.refused.append)


def fetched(*voters: int, epoch: int = EPOCH) -> rpc.FetchResponse:
    """The first batch of an epoch, with the leader's voters."""
    message = LeaderChangeMessage(
        version=0,
        leader_id=2,
        voters=[LeaderChangeMessage.Voter(voter_id=voter_id) for voter_id in voters],
        granting_voters=[],
    )
    batch = rpc.FetchedBatch(0, 1, epoch, b"", (message,))
    return rpc.FetchResponse(rpc.LeaderAndEpoch(epoch, 2), batches=(batch,))


def test_another_cluster_is_named_once_and_a_majority_of_it_refuses_this_node(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # M-C1
    node, raft = Checks(), raft_node()
    for _ in range(3):
        node.checks.failed(raft, 2, PEER, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert len(caplog.records) == 1
    assert caplog.records[0].levelno == logging.ERROR
    assert "the cluster id of this node is ours, and theirs is another" in caplog.text
    # One of two may be the wrong one itself.
    assert node.refused == []
    node.checks.failed(raft, 3, PEER, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert node.refused[0].startswith("2 of the 2 other voters refuse this node: the cluster id")


def test_a_peer_that_accepts_this_node_again_does_not_count() -> None:
    node, raft = Checks(), raft_node()
    node.checks.failed(raft, 2, PEER, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert node.checks.accepts(raft, 2, PEER, rpc.VoteResponse(rpc.LeaderAndEpoch(EPOCH), granted=False))
    node.checks.failed(raft, 3, PEER, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert node.refused == []


def test_passing_errors_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    node, raft = Checks(), raft_node()
    for peer_id in (2, 3):
        node.checks.failed(raft, peer_id, PEER, ErrorCode.BROKER_NOT_AVAILABLE)
    assert node.refused == []
    assert caplog.records == []


def test_a_leader_with_other_voters_is_not_followed(caplog: pytest.LogCaptureFixture) -> None:
    # M-C1
    node, raft = Checks(), raft_node()
    assert node.checks.accepts(raft, 2, PEER, fetched(1, 2, 3))
    for _ in range(3):
        assert not node.checks.accepts(raft, 2, PEER, fetched(1, 2, 4))
    assert len(caplog.records) == 1
    assert node.refused[0] == (
        "controller.quorum.voters names the nodes 1, 2, 3 here, but 1, 2, 4 on node 2 at host:9093, the leader"
        " of epoch 3; it must be the same on all nodes"
    )


def test_voters_of_earlier_epochs_and_of_a_dynamic_quorum_may_differ() -> None:
    node = Checks()
    assert node.checks.accepts(raft_node(), 2, PEER, fetched(1, 2, 4, epoch=EPOCH - 1))
    assert node.checks.accepts(raft_node(kraft_version=DYNAMIC_QUORUM), 2, PEER, fetched(1, 2, 4))
    assert node.refused == []


def test_an_epoch_of_this_id_that_this_node_never_had(caplog: pytest.LogCaptureFixture) -> None:
    node, raft = Checks(), raft_node()
    response = rpc.VoteResponse(rpc.LeaderAndEpoch(EPOCH + 1, 1), granted=False)
    for _ in range(2):
        assert node.checks.accepts(raft, 2, PEER, response)
    assert len(caplog.records) == 1
    assert "another running node has node.id=1" in caplog.text


def test_two_nodes_with_one_id_are_not_counted_as_one(caplog: pytest.LogCaptureFixture) -> None:
    # M-C1
    raft, directories = raft_node(), ReplicaDirectories()
    first, second = ReplicaKey(2, Uuid(b"a" * 16)), ReplicaKey(2, Uuid(b"b" * 16))
    timeout_ns = raft.quorum.options.fetch_timeout_ns
    assert not directories.is_duplicate(raft, first, 0)
    for now_ns in (1, timeout_ns - 1):
        assert directories.is_duplicate(raft, second, now_ns)
    assert len(caplog.records) == 1
    assert "two running nodes have node.id=2" in caplog.text
    assert not directories.is_duplicate(raft, first, timeout_ns - 1)
    # The first one is silent: a voter that came back with another disk.
    assert not directories.is_duplicate(raft, second, 2 * timeout_ns)


def test_observers_and_nodes_without_a_directory_id_are_not_compared() -> None:
    raft, directories = raft_node(), ReplicaDirectories()
    for replica_id, directory in ((9, b"a"), (9, b"b"), (2, b"a"), (2, b"\0")):
        assert not directories.is_duplicate(raft, ReplicaKey(replica_id, Uuid(directory * 16)), 0)


def test_a_node_that_starts_without_voters_learns_them_from_its_leader() -> None:
    # M-C7: a broker with controller.quorum.bootstrap.servers alone
    node = Checks()
    assert node.checks.accepts(raft_node(voters=()), 2, PEER, fetched(1, 2, 3))
    assert node.refused == []
