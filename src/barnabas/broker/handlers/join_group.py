"""JoinGroup (api key 11), versions 0 to 9.

A member joins a classic group.  The response is sent when all members have joined: it has the generation, the
protocol and, for the leader, the subscriptions of all members.  From version 1 on with a separate rebalance
timeout; from 4 on a new member gets its id first (KIP-394); from 5 on static members (KIP-345); from 8 on
with the client's reason (KIP-800); from 9 on a leader may have to skip the assignment (KIP-814).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.coordinators.group_requests import caller_of, check_member_request, recover
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.classic.changes import refused_join
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 11
FIRST_VERSION_WITH_NO_PROTOCOL = 7


def handle(
    broker: Broker, request: JoinGroupRequest, request_context: RequestContext
) -> Answer[JoinGroupResponse]:
    version = request_context.api_version
    try:
        check_member_request(broker, request_context, request.group_id)
    except KafkaError as error:
        member_id = request.member_id if error.code is ErrorCode.INVALID_GROUP_ID else ""
        return _for_version(version, refused_join(error.code, member_id))
    settings = broker.settings
    min_timeout_ms, max_timeout_ms = (
        settings["group.min.session.timeout.ms"],
        settings["group.max.session.timeout.ms"],
    )
    if not min_timeout_ms <= request.session_timeout_ms <= max_timeout_ms:
        return _for_version(version, refused_join(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
    if version == 0:
        request.rebalance_timeout_ms = request.session_timeout_ms
    caller = caller_of(request_context)

    def decide(machine: GroupMachine, context: Context) -> Decision[JoinGroupResponse]:
        return machine.classic.join(request, caller, context)

    promise: Promise[JoinGroupResponse] = Promise()
    joined = recover(broker.groups.submit(request.group_id, decide), lambda error: refused_join(error.code))
    joined.then(lambda response: promise.set(_for_version(version, response)), promise.fail)
    return promise


def _for_version(version: int, response: JoinGroupResponse) -> JoinGroupResponse:
    """Older versions have no null protocol."""
    if response.protocol_name is None and version < FIRST_VERSION_WITH_NO_PROTOCOL:
        response.protocol_name = ""
    return response
