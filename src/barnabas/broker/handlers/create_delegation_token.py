"""CreateDelegationToken (key 38, versions 1-3): the controller creates a token (KIP-48).

* Only a client that has logged in, and not by a token, may ask.  For another owner CREATE_TOKENS on that user
  is needed (KIP-373).  The owner, and from version 3 on the requester, are named in the error response too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.base.principals import ANONYMOUS
from barnabas.broker.network.controller_requests import is_for_controller, send_to_controller
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.broker.security.delegation_tokens import ERROR_TIMESTAMP_MS, is_unbuilt, may_ask
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 38
FIRST_WITH_REQUESTER = 3
USER_TYPE = "User"


def handle(
    broker: Broker, request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse | Promise[Message]:
    owner = context.principal
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    code = ErrorCode.NONE
    if not is_for_controller(broker, context) and not may_ask(broker, context):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif owner != context.principal and not broker.authorizer.allows(
        context, Operation.CREATE_TOKENS, Resource.USER, owner
    ):
        code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    elif any(renewer.principal_type != USER_TYPE for renewer in request.renewers):
        code = ErrorCode.INVALID_PRINCIPAL_TYPE
    elif is_unbuilt(broker):
        code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if code is ErrorCode.NONE:
        return send_to_controller(broker, context, request)
    return _refused(code, owner, context.principal if context.api_version >= FIRST_WITH_REQUESTER else "")


def refuse(
    request: CreateDelegationTokenRequest, code: ErrorCode, message: str
) -> CreateDelegationTokenResponse:
    return _refused(code, ANONYMOUS, "")


def _refused(code: ErrorCode, owner: str, requester: str) -> CreateDelegationTokenResponse:
    owner_type, _, owner_name = owner.partition(":")
    requester_type, _, requester_name = requester.partition(":")
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=ERROR_TIMESTAMP_MS,
        expiry_timestamp_ms=ERROR_TIMESTAMP_MS,
        max_timestamp_ms=ERROR_TIMESTAMP_MS,
        token_id="",
        hmac=b"",
        throttle_time_ms=0,
    )
