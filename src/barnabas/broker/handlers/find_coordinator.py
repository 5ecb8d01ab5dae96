"""FindCoordinator (api key 10), versions 0 to 6.

Returns the broker that coordinates a group or a transactional id: the leader of its partition of
`__consumer_offsets` or `__transaction_state`.  The first request creates the topic and gets
COORDINATOR_NOT_AVAILABLE.  From version 1 on for transactional ids too; from version 4 on for many keys at
once (KIP-699).  Coordinators of share groups (version 6, KIP-932) are not supported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from barnabas.base.errors import ERRORS, ErrorCode
from barnabas.base.hashing import partition_for_group
from barnabas.base.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps
from barnabas.broker.replicas.current_leader import live_leader
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.metadata.topics import Topic
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 10
FIRST_VERSION_WITH_BATCHES = 4


class _CoordinatorType(NamedTuple):
    """A coordinator type."""

    topic: str
    resource: Resource
    denied: ErrorCode


class _Coordinator(NamedTuple):
    code: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


# The leaders that a request has looked up, by partition of the coordinators' topic.
_Leaders: TypeAlias = dict[int, _Coordinator]

_TYPES = {
    0: _CoordinatorType(CONSUMER_OFFSETS, Resource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    1: _CoordinatorType(
        TRANSACTION_STATE, Resource.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    ),
}
_SHARE = 2


def handle(
    broker: Broker, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Steps[FindCoordinatorResponse]:
    coordinator_type = _TYPES.get(request.key_type)
    is_batch = context.api_version >= FIRST_VERSION_WITH_BATCHES
    if coordinator_type is None and request.key_type != _SHARE:
        return _refused(request, ErrorCode.INVALID_REQUEST, is_batch=is_batch)
    if not is_batch:
        coordinator = _find(broker, context, coordinator_type, request.key, {})
        text = "NONE" if coordinator.code is ErrorCode.NONE else ERRORS[coordinator.code].text
        return FindCoordinatorResponse(
            error_code=coordinator.code,
            error_message=text,
            node_id=coordinator.node_id,
            host=coordinator.host,
            port=coordinator.port,
        )
    return _find_all(broker, request, context, coordinator_type)


def _find_all(
    broker: Broker,
    request: FindCoordinatorRequest,
    context: RequestContext,
    coordinator_type: _CoordinatorType | None,
) -> Steps[FindCoordinatorResponse]:
    """A key that is named more than once is looked up once and answered each time, as in Apache Kafka."""
    coordinators: dict[str, FindCoordinatorResponse.Coordinator] = {}
    leaders: _Leaders = {}
    for key in request.coordinator_keys:
        if key not in coordinators:
            coordinators[key] = _coordinator(key, _find(broker, context, coordinator_type, key, leaders), "")
        yield None
    return FindCoordinatorResponse(coordinators=[coordinators[key] for key in request.coordinator_keys])


def refuse(request: FindCoordinatorRequest, code: ErrorCode, text: str) -> FindCoordinatorResponse:
    return _refused(request, code, is_batch=bool(request.coordinator_keys))


def _refused(request: FindCoordinatorRequest, code: ErrorCode, *, is_batch: bool) -> FindCoordinatorResponse:
    """In a batch each key has the error; there is no top-level error."""
    text = ERRORS[code].text
    refused = _Coordinator(code)
    if is_batch:
        keys = request.coordinator_keys
        return FindCoordinatorResponse(coordinators=[_coordinator(key, refused, text) for key in keys])
    return FindCoordinatorResponse(
        error_code=code,
        error_message=text,
        node_id=refused.node_id,
        host=refused.host,
        port=refused.port,
    )


def _find(
    broker: Broker,
    context: RequestContext,
    coordinator_type: _CoordinatorType | None,
    key: str,
    leaders: _Leaders,
) -> _Coordinator:
    if coordinator_type is None:
        return _Coordinator(ErrorCode.INVALID_REQUEST)
    if not broker.authorizer.allows(context, Operation.DESCRIBE, coordinator_type.resource, key):
        return _Coordinator(coordinator_type.denied)
    topic = broker.image.topic_named(coordinator_type.topic)
    if topic is None:
        broker.auto_topics.create_internal(coordinator_type.topic)
        return _Coordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    index = partition_for_group(key, len(topic.partitions))
    leader = leaders.get(index)
    if leader is None:
        leader = leaders[index] = _leader(broker, context, topic, index)
    return leader


def _leader(broker: Broker, context: RequestContext, topic: Topic, index: int) -> _Coordinator:
    state = topic.partitions.get(index)
    leader = None if state is None else live_leader(broker.image, state.leader, context.listener)
    if leader is None:
        return _Coordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _Coordinator(ErrorCode.NONE, leader.node_id, leader.host, leader.port)


def _coordinator(key: str, coordinator: _Coordinator, text: str) -> FindCoordinatorResponse.Coordinator:
    return FindCoordinatorResponse.Coordinator(
        key=key,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
        error_code=coordinator.code,
        error_message=text,
    )
