"""CreateDelegationToken (key 38, versions 1-3): refused, as delegation tokens are disabled.

* KIP-48.  The owner, and from version 3 on the requester, are named in the error response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.base.principals import ANONYMOUS
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.delegation_tokens import ERROR_TIMESTAMP_MS, refusal_of
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 38
FIRST_WITH_REQUESTER = 3


def handle(
    broker: Broker, request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    owner = context.principal
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    requester = context.principal if context.api_version >= FIRST_WITH_REQUESTER else ""
    return _refused(refusal_of(broker, context), owner, requester)


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
