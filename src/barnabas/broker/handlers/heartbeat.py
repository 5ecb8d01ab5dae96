"""Heartbeat (api key 12), versions 0 to 4.

Extends the session of a member of a classic group; the response says whether the group rebalances.  While the
coordinator is loading, every heartbeat succeeds: sessions restart when loading is complete.  From version 3
on static members (KIP-345).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.coordinators.group_requests import check_member_request, recover
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 12


def handle(
    broker: Broker, request: HeartbeatRequest, request_context: RequestContext
) -> Answer[HeartbeatResponse]:
    check_member_request(broker, request_context, request.group_id)

    def decide(machine: GroupMachine, context: Context) -> Decision[HeartbeatResponse]:
        return machine.classic.heartbeat(request, context)

    return recover(broker.groups.submit(request.group_id, decide), _refused)


def _refused(error: KafkaError) -> HeartbeatResponse:
    is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error.code)
