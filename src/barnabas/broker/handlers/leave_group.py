"""LeaveGroup (api key 13), versions 0 to 5.

Removes members from a classic group, which then rebalances.  From version 3 on many at once, also by instance
id, each with its own result (KIP-345); from 5 on with the client's reason (KIP-800).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.coordinators.group_requests import check_member_request, recover
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 13
FIRST_VERSION_WITH_MANY = 3


def handle(
    broker: Broker, request: LeaveGroupRequest, request_context: RequestContext
) -> Answer[LeaveGroupResponse]:
    check_member_request(broker, request_context, request.group_id)
    is_single = request_context.api_version < FIRST_VERSION_WITH_MANY
    if is_single:
        request.members = [LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]

    def decide(machine: GroupMachine, context: Context) -> Decision[LeaveGroupResponse]:
        return machine.classic.leave(request, context)

    removed = recover(
        broker.groups.submit(request.group_id, decide),
        lambda error: LeaveGroupResponse(error_code=error.code, members=[]),
    )
    if not is_single:
        return removed
    promise: Promise[LeaveGroupResponse] = Promise()
    removed.then(lambda response: promise.set(_single_response(response)), promise.fail)
    return promise


def _single_response(response: LeaveGroupResponse) -> LeaveGroupResponse:
    """Older versions have one member, whose error is the top-level error code."""
    if response.members and not response.error_code:
        response.error_code = response.members[0].error_code
    response.members = []
    return response
