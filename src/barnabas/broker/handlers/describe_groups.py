"""DescribeGroups (api key 15), versions 0 to 6.

State, protocol and members of classic groups.  A group that is not there is described as Dead, from version 6
on with an error (KIP-1043).  From version 3 on with what the client may do to it, if it asks (KIP-430).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.coordinators.group_requests import answered
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 15

Described = DescribeGroupsResponse.DescribedGroup


def handle(
    broker: Broker, request: DescribeGroupsRequest, request_context: RequestContext
) -> Steps[DescribeGroupsResponse]:
    """A group that is named again is looked at once and answered each time, as in Apache Kafka."""
    refused: list[Described] = []
    asked: dict[str, Promise[Described]] = {}
    wanted: list[str] = []
    for group_id in request.groups:
        if group_id in asked:
            wanted.append(group_id)
        elif broker.authorizer.allows(request_context, Operation.DESCRIBE, Resource.GROUP, group_id):
            asked[group_id] = _describe(broker, group_id, request_context.api_version)
            wanted.append(group_id)
        else:
            refused.append(_refused(group_id, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)))
        yield None
    found: dict[str, Described] = {}
    for group_id, described in asked.items():
        group = found[group_id] = yield from awaited(described)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = broker.authorizer.authorized_operations(
                request_context, Resource.GROUP, group_id
            )
    return DescribeGroupsResponse(groups=[*refused, *(found[group_id] for group_id in wanted)])


def refuse(request: DescribeGroupsRequest, code: ErrorCode, text: str) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[_refused(group_id, KafkaError(code)) for group_id in request.groups]
    )


def _describe(broker: Broker, group_id: str, version: int) -> Promise[Described]:
    def decide(machine: GroupMachine, context: Context) -> Decision[Described]:
        return Decision((), machine.classic.describe(group_id, version))

    return answered(broker.groups.ask(group_id, decide), partial(_refused, group_id))


def _refused(group_id: str, error: KafkaError) -> Described:
    return Described(
        error_code=error.code,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )
