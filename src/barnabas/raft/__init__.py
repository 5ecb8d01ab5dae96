"""Raft as Apache Kafka has it (KIP-595, KIP-853): pure step machines.

These names, `messages` and `rpc` are what a program of its own needs; examples/raft_kv is one.
"""

from barnabas.raft.log import RaftLog
from barnabas.raft.node import RaftNode
from barnabas.raft.options import QuorumOptions
from barnabas.raft.quorum import LoadedQuorum
from barnabas.raft.quorum_state_file import ElectionState
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voter_history import VoterHistory
from barnabas.raft.voters import Voter, VoterEndpoint, Voters

__all__ = [
    "ElectionState",
    "LoadedQuorum",
    "QuorumOptions",
    "RaftLog",
    "RaftNode",
    "SnapshotId",
    "Voter",
    "VoterEndpoint",
    "VoterHistory",
    "Voters",
]
