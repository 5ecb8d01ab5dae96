"""Requests of the quorum's other nodes: authorized, checked, decided by the Raft node, and encoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.modes.kraft.quorum.requests import decode_request
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

Encode = Callable[[Any, int, str], Message]


def serve(
    broker: Broker,
    request: Any,
    context: RequestContext,
    encode: Encode,
    operation: Operation = Operation.CLUSTER_ACTION,
) -> Promise[Message]:
    """Have the Raft node decide on a request of another node."""
    check_cluster(broker.authorizer, context, operation)
    if request.cluster_id is not None and request.cluster_id != broker.quorum.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"the request is for the cluster {request.cluster_id}, this node belongs to"
            f" {broker.quorum.cluster_id}",
        )
    version, listener = context.api_version, context.listener
    decided = broker.quorum.quorum_request(decode_request(request, version))
    response: Promise[Message] = Promise()
    decided.then(lambda answer: response.set(encode(answer, version, listener)), response.fail)
    return response
