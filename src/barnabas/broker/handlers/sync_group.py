"""SyncGroup (api key 14), versions 0 to 5.

The leader sends the assignments of all members; each member gets its own when they are committed.  From
version 3 on static members (KIP-345); from 5 on the member's protocol must be the group's (KIP-559).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.coordinators.group_requests import check_member_request, recover
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 14
FIRST_VERSION_WITH_PROTOCOL = 5


def handle(
    broker: Broker, request: SyncGroupRequest, request_context: RequestContext
) -> Answer[SyncGroupResponse]:
    if request_context.api_version >= FIRST_VERSION_WITH_PROTOCOL and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return _refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    check_member_request(broker, request_context, request.group_id)

    def decide(machine: GroupMachine, context: Context) -> Decision[SyncGroupResponse]:
        return machine.classic.sync(request, context)

    return recover(broker.groups.submit(request.group_id, decide), lambda error: _refused(error.code))


def refuse(request: SyncGroupRequest, code: ErrorCode, text: str) -> SyncGroupResponse:
    return _refused(code)


def _refused(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code, assignment=b"")
