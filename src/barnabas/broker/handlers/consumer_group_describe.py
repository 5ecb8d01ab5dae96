"""ConsumerGroupDescribe (api key 69), versions 0 to 1.

Describes state, epochs and members of consumer groups (KIP-848), with the current and the target assignment
of each member.  A group that does not exist or is not a consumer group gets GROUP_ID_NOT_FOUND.  Authorized
operations are included on request (KIP-430).  A group with a topic that the client may not describe is not
shown.  From version 1 on members have a type: the protocol that they use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.coordinators.chunked_lookup import look_up
from barnabas.broker.coordinators.consumer_group_requests import check_enabled
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.consumer.describe import not_described
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 69
# A look-up describes groups until they have this many members: large groups share no look-up.
MEMBERS_PER_LOOK_UP = 100

Described = ConsumerGroupDescribeResponse.DescribedGroup


def handle(
    broker: Broker, request: ConsumerGroupDescribeRequest, request_context: RequestContext
) -> Steps[ConsumerGroupDescribeResponse]:
    """A group that is named more than once is looked up once and described each time, as in Apache Kafka."""
    check_enabled(broker)
    refused: list[Described] = []
    allowed: list[str] = []
    for group_id in request.group_ids:
        yield None
        if not broker.authorizer.allows(request_context, Operation.DESCRIBE, Resource.GROUP, group_id):
            refused.append(not_described(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED, None))
        elif not group_id:
            refused.append(not_described(group_id, ErrorCode.INVALID_GROUP_ID, None))
        else:
            allowed.append(group_id)
    described = yield from look_up(broker.groups, dict.fromkeys(allowed), _describe, _refused)
    for group_id, group in described.items():
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = broker.authorizer.authorized_operations(
                request_context, Resource.GROUP, group_id
            )
        if not _may_see(broker, request_context, group):
            described[group_id] = _hidden(group_id)
        yield None
    groups = [*refused, *(described[group_id] for group_id in allowed)]
    return ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=groups)


def refuse(
    request: ConsumerGroupDescribeRequest, code: ErrorCode, text: str
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        throttle_time_ms=0, groups=[not_described(group_id, code, None) for group_id in request.group_ids]
    )


def _describe(
    machine: GroupMachine, context: Context, group_ids: Sequence[str]
) -> Decision[dict[str, Described]]:
    described: dict[str, Described] = {}
    member_count = 0
    for group_id in group_ids:
        group = described[group_id] = machine.consumer.describe(group_id, context)
        member_count += len(group.members)
        if member_count >= MEMBERS_PER_LOOK_UP:
            break
    return Decision((), described)


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
