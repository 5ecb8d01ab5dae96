"""How the nodes of a simulated quorum describe themselves."""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.raft.voters import Voter, VoterEndpoint


def voter(node_id: int, disk: int = 0, moves: int = 0) -> Voter:
    """A node with its nth disk, whose directory id is another one, and at its nth address."""
    directory_id = Uuid.from_words(node_id, 4711 + disk)
    return Voter(node_id, directory_id, (VoterEndpoint("CONTROLLER", f"node{node_id}", 9093 + moves),))


def static_voter(node_id: int) -> Voter:
    """As it is configured: the directory id is not known."""
    return Voter(node_id, ZERO_UUID, voter(node_id).endpoints)
