"""DescribeGroups (api key 15), versions 0 to 6.

Describes state, protocol and members of classic groups.  A group that does not exist is described as Dead,
from version 6 on with an error (KIP-1043).  From version 3 on authorized operations are included on request
(KIP-430).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.coordinators.chunked_lookup import look_up
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, chunks
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 15
# A look-up describes groups until they have this many members: large groups share no look-up.
MEMBERS_PER_LOOK_UP = 100

Described = DescribeGroupsResponse.DescribedGroup


def handle(
    broker: Broker, request: DescribeGroupsRequest, request_context: RequestContext
) -> Steps[DescribeGroupsResponse]:
    """A group that is named more than once is looked up once and described each time, as in Apache Kafka."""
    refused: list[Described] = []
    allowed: list[str] = []
    allows = broker.authorizer.allows
    for chunk in chunks(request.groups):
        for group_id in chunk:
            if allows(request_context, Operation.DESCRIBE, Resource.GROUP, group_id):
                allowed.append(group_id)
            else:
                refused.append(_refused(group_id, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)))
        yield None
    describe = partial(_describe, request_context.api_version)
    described = yield from look_up(broker.groups, dict.fromkeys(allowed), describe, _refused)
    if request.include_authorized_operations:
        for group_id, group in described.items():
            if not group.error_code:
                group.authorized_operations = broker.authorizer.authorized_operations(
                    request_context, Resource.GROUP, group_id
                )
            yield None
    return DescribeGroupsResponse(groups=[*refused, *(described[group_id] for group_id in allowed)])


def refuse(request: DescribeGroupsRequest, code: ErrorCode, text: str) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[_refused(group_id, KafkaError(code)) for group_id in request.groups]
    )


def _describe(
    version: int, machine: GroupMachine, _: Context, group_ids: Sequence[str]
) -> Decision[dict[str, Described]]:
    described: dict[str, Described] = {}
    member_count = 0
    for group_id in group_ids:
        group = described[group_id] = machine.classic.describe(group_id, version)
        member_count += len(group.members)
        if member_count >= MEMBERS_PER_LOOK_UP:
            break
    return Decision((), described)


def _refused(group_id: str, error: KafkaError) -> Described:
    return Described(
        error_code=error.code,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )
