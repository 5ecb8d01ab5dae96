"""Notices nodes that are configured against each other, and says so once: not in a loop of retries.

Contains what the responses of peers reveal (another cluster, another node with this id, other voters), and
two nodes that fetch under one id.  What a message means for the quorum belongs in raft/.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.protocol.records.control import LeaderChangeMessage
from barnabas.raft import rpc
from barnabas.raft.node import RaftNode
from barnabas.raft.voters import DYNAMIC_QUORUM, ReplicaKey
from barnabas.runtime.network.network import Address

logger = logging.getLogger(__name__)


class PeerChecks:
    """The checks of one node on the responses that it receives.

    `on_refused` is called with the reason when this node cannot take part in its quorum at all.
    """

    def __init__(self, cluster_id: str, on_refused: Callable[[str], None]) -> None:
        self._cluster_id = cluster_id
        self._on_refused = on_refused
        self._refusals: dict[int, ErrorCode] = {}
        self._reported: set[Hashable] = set()

    def failed(self, raft: RaftNode, peer_id: int, address: Address, error: ErrorCode) -> None:
        """A peer responded with an error of the whole request."""
        reason = self._reason(raft, error)
        if reason is None:
            return
        self._report((peer_id, error), f"node {peer_id} at {address} refuses this node's requests: {reason}")
        self._refusals[peer_id] = error
        others = [voter.id for voter in raft.voters if voter.id != raft.me.id]
        refusing = sum(self._refusals.get(voter_id) is error for voter_id in others)
        if refusing > len(others) // 2:
            self._on_refused(f"{refusing} of the {len(others)} other voters refuse this node: {reason}")

    def _reason(self, raft: RaftNode, error: ErrorCode) -> str | None:
        match error:
            case ErrorCode.INCONSISTENT_CLUSTER_ID:
                return (
                    f"the cluster id of this node is {self._cluster_id}, and theirs is another; check"
                    " controller.quorum.voters, or format this node with their id"
                )
            case ErrorCode.DUPLICATE_VOTER:
                return f"another running node has node.id={raft.me.id}"
            case ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                return "its principal may not do ClusterAction there; check super.users"
        return None

    def accepts(self, raft: RaftNode, peer_id: int, address: Address, response: rpc.PeerResponse) -> bool:
        """Whether the response can be used."""
        self._refusals.pop(peer_id, None)
        if isinstance(response, rpc.SupportedVersionsResponse):
            return True
        leader = response.leader
        if leader.leader_id == raft.me.id and leader.epoch > raft.epoch:
            self._report(
                "same id",
                f"node {peer_id} at {address} says that node {leader.leader_id} leads epoch {leader.epoch},"
                f" which this node has never reached: another running node has node.id={raft.me.id}, or this"
                " node has lost its quorum-state",
            )
        # A node that starts without voters (KIP-853) learns them from these very batches.
        has_static_voters = raft.kraft_version < DYNAMIC_QUORUM and len(raft.voters) > 0
        if has_static_voters and isinstance(response, rpc.FetchResponse):
            return self._has_same_voters(raft, address, response)
        return True

    def _has_same_voters(self, raft: RaftNode, address: Address, response: rpc.FetchResponse) -> bool:
        """Static voters must be the same everywhere, or two majorities could decide different things."""
        for batch in response.batches:
            for message in batch.control:
                if not isinstance(message, LeaderChangeMessage):
                    continue
                theirs = sorted(voter.voter_id for voter in message.voters)
                if theirs != sorted(raft.voters.ids) and batch.epoch == raft.epoch:
                    reason = (
                        f"controller.quorum.voters names the nodes {_listed(raft.voters.ids)} here, but"
                        f" {_listed(theirs)} on node {message.leader_id} at {address}, the leader of epoch"
                        f" {batch.epoch}; it must be the same on all nodes"
                    )
                    self._report(("voters", message.leader_id), reason)
                    self._on_refused(reason)
                    return False
        return True

    def _report(self, subject: Hashable, text: str) -> None:
        if subject not in self._reported:
            self._reported.add(subject)
            logger.error("%s", text)


class ReplicaDirectories:
    """The directories of the voters that fetch from this node, by id.

    Two nodes with one id would be counted as one: a record could be committed that no majority has.  A voter
    may come back with another directory, but not while the first one is fetching.
    """

    def __init__(self) -> None:
        self._latest: dict[int, tuple[Uuid, int]] = {}
        self._reported: set[int] = set()

    def is_duplicate(self, raft: RaftNode, replica: ReplicaKey, now_ns: int) -> bool:
        if replica.directory_id == ZERO_UUID or raft.voters.get(replica.id) is None:
            return False
        directory_id, last_ns = self._latest.get(replica.id, (replica.directory_id, now_ns))
        if directory_id != replica.directory_id and now_ns - last_ns < raft.quorum.options.fetch_timeout_ns:
            if replica.id not in self._reported:
                self._reported.add(replica.id)
                logger.error(
                    "two running nodes have node.id=%d: one with the directory id %s, one with %s, which is"
                    " refused",
                    replica.id,
                    directory_id,
                    replica.directory_id,
                )
            return True
        self._latest[replica.id] = (replica.directory_id, now_ns)
        return False


def _listed(ids: object) -> str:
    return ", ".join(map(str, sorted(ids)))  # type: ignore[call-overload]
