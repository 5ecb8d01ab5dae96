"""Requests that every node of a quorum must refuse, whatever its role."""

from __future__ import annotations

from barnabas.raft.log import OffsetAndEpoch
from barnabas.raft.rpc import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    LeaderAndEpoch,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoteRequest,
)
from barnabas.raft.snapshot import FIRST_SNAPSHOT, SnapshotId
from barnabas.raft.voters import ReplicaKey, Voter
from barnabas.testing.simulation.quorum.nodes import voter
from barnabas.testing.simulation.quorum.server import RaftServer

# No node of a scenario has this id.
STRANGER = 99


def refused_requests(server: RaftServer) -> list[object]:
    """Malformed requests, and requests of nodes that are not what they claim to be."""
    quorum = server.raft.quorum
    epoch, end = quorum.epoch, quorum.log.end
    stranger = voter(STRANGER)
    key, endpoints = stranger.key, stranger.endpoints
    me = quorum.me.id
    no_node = ReplicaKey(-1, key.directory_id)
    requests: list[object] = [
        VoteRequest(key, epoch + 1, OffsetAndEpoch(-1, 0)),
        VoteRequest(key, epoch, OffsetAndEpoch(0, epoch + 1)),
        VoteRequest(no_node, epoch, OffsetAndEpoch(0, 0), pre_vote=True),
        VoteRequest(key, epoch - 1, OffsetAndEpoch(0, 0), pre_vote=True),
        BeginQuorumEpochRequest(LeaderAndEpoch(epoch)),
        EndQuorumEpochRequest(LeaderAndEpoch(epoch - 1, STRANGER)),
        FetchRequest(key, epoch, -1, 0),
        FetchRequest(key, epoch, 0, epoch + 1),
        # Another node with the id of this one.
        FetchRequest(ReplicaKey(me, key.directory_id), epoch, end.offset, end.epoch),
        FetchSnapshotRequest(key, epoch, FIRST_SNAPSHOT, 0),
        FetchSnapshotRequest(key, epoch, SnapshotId(1, 1), -1),
        AddVoterRequest(Voter(-1, key.directory_id, endpoints), 0),
        AddVoterRequest(Voter(STRANGER, key.directory_id), 0),
        AddVoterRequest(Voter(STRANGER, key.directory_id, endpoints, 1, 0), 0),
        RemoveVoterRequest(no_node),
        RemoveVoterRequest(key),
        UpdateVoterRequest(epoch - 1, stranger),
        UpdateVoterRequest(epoch, stranger),
        UpdateVoterRequest(epoch, Voter(STRANGER, key.directory_id, ())),
        UpdateVoterRequest(epoch, Voter(STRANGER, key.directory_id, endpoints, 2, 3)),
    ]
    requests += [AddVoterRequest(voter(known.id, STRANGER), 0) for known in quorum.voters]
    return requests
