"""AddRaftVoter and RemoveRaftVoter at this node: checked, decided by the Raft node, and encoded (KIP-853).

The messages are those of Apache Kafka.
"""

from __future__ import annotations

from typing import TypeAlias

from barnabas.base.errors import ERRORS, ErrorCode
from barnabas.base.ids import ZERO_UUID
from barnabas.broker.modes.kraft.quorum.requests import decode_request
from barnabas.broker.modes.kraft.raft_store import RaftStore
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from barnabas.protocol.schema import Message
from barnabas.raft import rpc
from barnabas.runtime.loop.promise import Promise

VoterChangeRequest: TypeAlias = AddRaftVoterRequest | RemoveRaftVoterRequest


def change_voters(
    store: RaftStore, request: VoterChangeRequest, cluster_id: str, listener: str
) -> Promise[Message]:
    """Completed when the change is committed, or refused.  `listener` is the one of the quorum."""
    refusal = _refusal(store, request, cluster_id, listener)
    if refusal is not None:
        return Promise.of(refusal)
    response: Promise[Message] = Promise()

    def decided(outcome: object) -> None:
        assert isinstance(outcome, rpc.VoterChangeResponse)
        response.set(_response(request, outcome.error, _message(outcome)))

    store.request(decode_request(request, 0)).then(decided, response.fail)
    return response


def _refusal(store: RaftStore, request: VoterChangeRequest, cluster_id: str, listener: str) -> Message | None:
    """The response to a request that no leader can fulfil; None if the Raft node decides."""
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        message = f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{cluster_id}"'
        return _response(request, ErrorCode.INCONSISTENT_CLUSTER_ID, message)
    if not store.quorum.is_leader:
        return None
    verb = "Add" if isinstance(request, AddRaftVoterRequest) else "Remove"
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        message = f"{verb} voter request didn't include a valid voter"
        return _response(request, ErrorCode.INVALID_REQUEST, message)
    if isinstance(request, AddRaftVoterRequest) and all(each.name != listener for each in request.listeners):
        message = (
            f"Add voter request didn't include the endpoint ({_endpoints(request)}) for the default"
            f" listener ListenerName({listener})"
        )
        return _response(request, ErrorCode.INVALID_REQUEST, message)
    return None


def _endpoints(request: AddRaftVoterRequest) -> str:
    """As Apache Kafka prints them."""
    endpoints = ", ".join(
        f"ListenerName({each.name})={each.host}/<unresolved>:{each.port}" for each in request.listeners
    )
    return f"Endpoints(endpoints={{{endpoints}}})"


def _message(outcome: rpc.VoterChangeResponse) -> str:
    """Without a message of its own an outcome has that of its error, but the wrong node says nothing."""
    if outcome.message is not None:
        return outcome.message
    if outcome.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return ""
    return "NONE" if outcome.error is ErrorCode.NONE else ERRORS[outcome.error].text


def _response(request: VoterChangeRequest, code: ErrorCode, message: str) -> Message:
    if isinstance(request, AddRaftVoterRequest):
        return AddRaftVoterResponse(throttle_time_ms=0, error_code=code, error_message=message)
    return RemoveRaftVoterResponse(throttle_time_ms=0, error_code=code, error_message=message)
