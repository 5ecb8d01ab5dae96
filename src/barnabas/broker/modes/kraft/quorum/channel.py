"""Carries the Raft node's requests to its peers, and their responses back.

Contains where a peer is, and the version of each request.  Retries and timeouts are the node's own: a request
that fails comes back as no response.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from barnabas.base.errors import ErrorCode
from barnabas.base.units import NS_PER_MS
from barnabas.batch.view import CorruptBatch
from barnabas.broker.modes.kraft.quorum.peer_checks import PeerChecks
from barnabas.broker.modes.kraft.quorum.requests import encode_request
from barnabas.broker.modes.kraft.quorum.responses import decode_response
from barnabas.broker.peers.peers import Peers
from barnabas.client.errors.cluster import UnsupportedVersionError
from barnabas.protocol.apis import api
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.schema import Message
from barnabas.raft import rpc
from barnabas.raft.node import RaftNode
from barnabas.raft.voters import VoterEndpoint
from barnabas.runtime.network.network import Address

logger = logging.getLogger(__name__)

_API_KEYS: Mapping[type[object], int] = {
    rpc.FetchRequest: 1,
    rpc.SupportedVersionsRequest: 18,
    rpc.VoteRequest: 52,
    rpc.BeginQuorumEpochRequest: 53,
    rpc.EndQuorumEpochRequest: 54,
    rpc.FetchSnapshotRequest: 59,
    rpc.AddVoterRequest: 80,
    rpc.RemoveVoterRequest: 81,
    rpc.UpdateVoterRequest: 82,
}
PRE_VOTE_VERSION = 2

Received = Callable[[int, rpc.InboundResponse], None]


class QuorumChannel:
    """The connections of one node to the other nodes of its quorum."""

    def __init__(
        self,
        peers: Peers,
        bootstrap: Mapping[int, Address],
        *,
        cluster_id: str,
        listener: str,
        on_response: Received,
        on_refused: Callable[[str], None],
    ) -> None:
        self._peers = peers
        self._bootstrap = bootstrap
        self._cluster_id = cluster_id
        self._listener = listener
        self._on_response = on_response
        self._checks = PeerChecks(cluster_id, on_refused)

    def send(self, raft: RaftNode, peer_id: int, outbound: rpc.OutboundRequest) -> None:
        """Send a request; its response, or that there is none, is reported later."""
        request = outbound.request
        address = self._address_of(raft, peer_id, request)
        if address is None:
            self._on_response(peer_id, rpc.InboundResponse(outbound.correlation_id))
            return
        done = partial(self._received, raft, peer_id, address, outbound)
        timeout_ms = raft.quorum.options.request_timeout_ns // NS_PER_MS
        make = partial(self._make, request)
        key = _API_KEYS[type(request)]
        self._peers.send(address, key, make, done, timeout_ms, api(key).versions.highest)

    def _make(self, request: rpc.PeerRequest, version: int) -> Message:
        if isinstance(request, rpc.SupportedVersionsRequest):
            return ApiVersionsRequest(client_software_name="barnabas", client_software_version="1")
        if isinstance(request, rpc.VoteRequest) and request.pre_vote and version < PRE_VOTE_VERSION:
            raise UnsupportedVersionError("the voter's release has no pre-vote")
        return encode_request(request, self._cluster_id, version)

    def _address_of(self, raft: RaftNode, peer_id: int, request: rpc.PeerRequest) -> Address | None:
        if isinstance(request, rpc.SupportedVersionsRequest):
            return self._address(request.voter.endpoints)
        known = self._bootstrap.get(peer_id)
        if known is not None:
            return known
        leader = raft.quorum.leader
        if leader.leader_id == peer_id and leader.endpoints:
            return self._address(leader.endpoints)
        voter = raft.voters.get(peer_id)
        return None if voter is None else self._address(voter.endpoints)

    def address_of_leader(self, raft: RaftNode) -> Address | None:
        """Where the leader's controller listener is."""
        return self._address(raft.quorum.endpoints_of(raft.quorum.leader))

    def _address(self, endpoints: tuple[VoterEndpoint, ...]) -> Address | None:
        """The endpoint on this node's controller listener, or the first one."""
        named = next((each for each in endpoints if each.name == self._listener), None)
        endpoint = named if named is not None else next(iter(endpoints), None)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    def _received(
        self,
        raft: RaftNode,
        peer_id: int,
        address: Address,
        outbound: rpc.OutboundRequest,
        message: Message | None,
        error: Exception | None,
    ) -> None:
        response: rpc.PeerResponse | None = None
        if isinstance(error, UnsupportedVersionError) and isinstance(outbound.request, rpc.VoteRequest):
            response = _pre_vote_unsupported(outbound.request)
        elif message is not None:
            refusal = getattr(message, "error_code", 0)
            if refusal:
                self._checks.failed(raft, peer_id, address, ErrorCode(refusal))
            try:
                response = decode_response(message, self._listener)
            except (ProtocolError, CorruptBatch, ValueError) as fault:
                logger.warning("node %d sent an unusable response: %s", peer_id, fault)
        if response is not None and not self._checks.accepts(raft, peer_id, address, response):
            response = None
        self._on_response(peer_id, rpc.InboundResponse(outbound.correlation_id, response))

    def close(self) -> None:
        self._peers.close()


def _pre_vote_unsupported(request: rpc.VoteRequest) -> rpc.VoteResponse | None:
    if not request.pre_vote:
        return None
    return rpc.VoteResponse(
        rpc.LeaderAndEpoch(request.epoch), granted=False, error=ErrorCode.UNSUPPORTED_VERSION
    )
