"""ExpireDelegationToken (key 40, versions 1-2): the controller ends a token, now or after a period (KIP-48).

* Only its owner and its renewers may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.network.controller_requests import is_for_controller, send_to_controller
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.delegation_tokens import ERROR_TIMESTAMP_MS, is_unbuilt, may_ask
from barnabas.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 40


def handle(
    broker: Broker, request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse | Promise[Message]:
    if not is_for_controller(broker, context) and not may_ask(broker, context):
        return refuse(request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, "")
    if is_unbuilt(broker):
        return refuse(request, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "")
    return send_to_controller(broker, context, request)


def refuse(
    request: ExpireDelegationTokenRequest, code: ErrorCode, message: str
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(
        error_code=code, expiry_timestamp_ms=ERROR_TIMESTAMP_MS, throttle_time_ms=0
    )
