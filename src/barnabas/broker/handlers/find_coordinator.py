"""FindCoordinator (api key 10), versions 0 to 6.

Which broker coordinates a group or a transactional id: the leader of the partition of `__consumer_offsets` or
`__transaction_state` that keeps it.  Whoever asks first has the topic made and is told to ask again.  From
version 1 on for transactions too; from 4 on for many keys at once (KIP-699); the coordinators of share groups
(6, KIP-932) are not served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from barnabas.base.errors import ERRORS, ErrorCode
from barnabas.base.hashing import partition_for_group
from barnabas.base.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps
from barnabas.broker.replicas.current_leader import leader_endpoint
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.metadata.topics import Topic
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 10
FIRST_VERSION_WITH_BATCHES = 4


class _Kind(NamedTuple):
    """What has coordinators."""

    topic: str
    resource: Resource
    denied: ErrorCode


class _Found(NamedTuple):
    code: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


# The leaders that a request has looked up, by partition of the coordinators' topic.
_Leaders: TypeAlias = dict[int, _Found]

_KINDS = {
    0: _Kind(CONSUMER_OFFSETS, Resource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    1: _Kind(TRANSACTION_STATE, Resource.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
_SHARE = 2


def handle(
    broker: Broker, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Steps[FindCoordinatorResponse]:
    kind = _KINDS.get(request.key_type)
    is_batch = context.api_version >= FIRST_VERSION_WITH_BATCHES
    if kind is None and request.key_type != _SHARE:
        return _refused(request, ErrorCode.INVALID_REQUEST, is_batch=is_batch)
    if not is_batch:
        found = _find(broker, context, kind, request.key, {})
        text = "NONE" if found.code is ErrorCode.NONE else ERRORS[found.code].text
        return FindCoordinatorResponse(
            error_code=found.code,
            error_message=text,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    return _find_all(broker, request, context, kind)


def _find_all(
    broker: Broker, request: FindCoordinatorRequest, context: RequestContext, kind: _Kind | None
) -> Steps[FindCoordinatorResponse]:
    """A key that is named more than once is looked up once and answered each time, as in Apache Kafka."""
    coordinators: dict[str, FindCoordinatorResponse.Coordinator] = {}
    leaders: _Leaders = {}
    for key in request.coordinator_keys:
        if key not in coordinators:
            coordinators[key] = _coordinator(key, _find(broker, context, kind, key, leaders), "")
        yield None
    return FindCoordinatorResponse(coordinators=[coordinators[key] for key in request.coordinator_keys])


def refuse(request: FindCoordinatorRequest, code: ErrorCode, text: str) -> FindCoordinatorResponse:
    return _refused(request, code, is_batch=bool(request.coordinator_keys))


def _refused(request: FindCoordinatorRequest, code: ErrorCode, *, is_batch: bool) -> FindCoordinatorResponse:
    """A batch has an error for each key, and none of its own."""
    general = ERRORS[code].text
    nobody = _Found(code)
    if is_batch:
        keys = request.coordinator_keys
        return FindCoordinatorResponse(coordinators=[_coordinator(key, nobody, general) for key in keys])
    return FindCoordinatorResponse(
        error_code=code,
        error_message=general,
        node_id=nobody.node_id,
        host=nobody.host,
        port=nobody.port,
    )


def _find(broker: Broker, context: RequestContext, kind: _Kind | None, key: str, leaders: _Leaders) -> _Found:
    if kind is None:
        return _Found(ErrorCode.INVALID_REQUEST)
    if not broker.authorizer.allows(context, Operation.DESCRIBE, kind.resource, key):
        return _Found(kind.denied)
    topic = broker.image.topic_named(kind.topic)
    if topic is None:
        broker.auto_topics.create_internal(kind.topic)
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    index = partition_for_group(key, len(topic.partitions))
    leader = leaders.get(index)
    if leader is None:
        leader = leaders[index] = _leader(broker, context, topic, index)
    return leader


def _leader(broker: Broker, context: RequestContext, topic: Topic, index: int) -> _Found:
    state = topic.partitions.get(index)
    leader = None if state is None else leader_endpoint(broker.image, state.leader, context.listener)
    if leader is None:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _Found(ErrorCode.NONE, leader.node_id, leader.host, leader.port)


def _coordinator(key: str, found: _Found, text: str) -> FindCoordinatorResponse.Coordinator:
    return FindCoordinatorResponse.Coordinator(
        key=key,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
        error_code=found.code,
        error_message=text,
    )
