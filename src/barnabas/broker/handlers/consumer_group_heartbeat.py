"""ConsumerGroupHeartbeat (api key 68), versions 0 to 1.

A member of a consumer group (KIP-848) joins (epoch 0), sends its heartbeat and the partitions it owns, or
leaves (-1; -2 for a static member that will return).  The response has its epoch and, if it has changed, its
assignment.  From version 1 on members generate their own ids (KIP-1082) and may subscribe by a regular
expression that the coordinator resolves (RE2).

Without group.version 1, or if group.coordinator.rebalance.protocols does not contain the consumer protocol,
the response is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.coordinators.consumer_group_requests import check_enabled, topic_visibility
from barnabas.broker.coordinators.group_requests import caller_of, recover
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.consumer.heartbeat import HeartbeatContext
from barnabas.coordinator.group.consumer.options import assignors_of
from barnabas.coordinator.group.consumer.requests import check_heartbeat
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 68


def handle(
    broker: Broker, request: ConsumerGroupHeartbeatRequest, request_context: RequestContext
) -> Answer[ConsumerGroupHeartbeatResponse]:
    check_enabled(broker)
    allows = broker.authorizer.allows
    if not allows(request_context, Operation.READ, Resource.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = set(request.subscribed_topic_names or ())
    if not all(allows(request_context, Operation.DESCRIBE, Resource.TOPIC, name) for name in names):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    try:
        check_heartbeat(request, request_context.api_version, assignors_of(broker.settings))
    except KafkaError as error:
        return _refused(error)
    requester = HeartbeatContext(caller_of(request_context), topic_visibility(broker, request_context))

    def decide(machine: GroupMachine, context: Context) -> Decision[ConsumerGroupHeartbeatResponse]:
        return machine.consumer.heartbeat(request, requester, context)

    return recover(broker.groups.submit(request.group_id, decide), _refused)


def refuse(
    request: ConsumerGroupHeartbeatRequest, code: ErrorCode, text: str
) -> ConsumerGroupHeartbeatResponse:
    """Errors raised before the coordinator is involved have no message."""
    return _response(code, None)


def _refused(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return _response(error.code, error.message)


def _response(code: ErrorCode, message: str | None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=code,
        error_message=message,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )
