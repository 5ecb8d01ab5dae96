"""ConsumerGroupDescribe (api key 69), versions 0 to 1.

State, epochs and members of consumer groups (KIP-848), with what each member owns and is to own.  A group
that is not there, or is of another kind, is GROUP_ID_NOT_FOUND.  With what the client may do to it, if it
asks (KIP-430).  A group with a topic that the client may not see is not told of.  From version 1 on with the
protocol that each member uses.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.coordinators.consumer_group_requests import check_enabled
from barnabas.broker.coordinators.group_requests import answered
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.consumer.describe import not_described
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 69

Described = ConsumerGroupDescribeResponse.DescribedGroup


def handle(
    broker: Broker, request: ConsumerGroupDescribeRequest, request_context: RequestContext
) -> Steps[ConsumerGroupDescribeResponse]:
    """A group that is named again is looked at once and answered each time, as in Apache Kafka."""
    check_enabled(broker)
    refused: list[Described] = []
    asked: dict[str, Promise[Described]] = {}
    wanted: list[str] = []
    for group_id in request.group_ids:
        yield None
        if group_id in asked:
            wanted.append(group_id)
        elif not broker.authorizer.allows(request_context, Operation.DESCRIBE, Resource.GROUP, group_id):
            refused.append(not_described(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED, None))
        elif not group_id:
            refused.append(not_described(group_id, ErrorCode.INVALID_GROUP_ID, None))
        else:
            asked[group_id] = _describe(broker, group_id)
            wanted.append(group_id)
    found: dict[str, Described] = {}
    for group_id, described in asked.items():
        group = yield from awaited(described)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = broker.authorizer.authorized_operations(
                request_context, Resource.GROUP, group_id
            )
        found[group_id] = group if _may_see(broker, request_context, group) else _hidden(group_id)
    groups = [*refused, *(found[group_id] for group_id in wanted)]
    return ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=groups)


def refuse(
    request: ConsumerGroupDescribeRequest, code: ErrorCode, text: str
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        throttle_time_ms=0, groups=[not_described(group_id, code, None) for group_id in request.group_ids]
    )


def _describe(broker: Broker, group_id: str) -> Promise[Described]:
    def decide(machine: GroupMachine, context: Context) -> Decision[Described]:
        return Decision((), machine.consumer.describe(group_id, context))

    return answered(broker.groups.ask(group_id, decide), partial(_refused, group_id))


def _refused(group_id: str, error: KafkaError) -> Described:
    return not_described(group_id, error.code, None)


def _may_see(broker: Broker, request_context: RequestContext, group: Described) -> bool:
    topics = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    allows = broker.authorizer.allows
    return all(allows(request_context, Operation.DESCRIBE, Resource.TOPIC, topic) for topic in topics)


def _hidden(group_id: str) -> Described:
    return not_described(
        group_id,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "The group has described topic(s) that the client is not authorized to describe.",
    )
