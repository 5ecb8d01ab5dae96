"""RenewDelegationToken (key 39, versions 1-2): refused, as delegation tokens are disabled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.delegation_tokens import ERROR_TIMESTAMP_MS, refusal_of
from barnabas.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 39


def handle(
    broker: Broker, request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(
        error_code=refusal_of(broker, context), expiry_timestamp_ms=ERROR_TIMESTAMP_MS, throttle_time_ms=0
    )
