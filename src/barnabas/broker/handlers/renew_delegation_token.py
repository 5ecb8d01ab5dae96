"""RenewDelegationToken (key 39, versions 1-2): refused, as where tokens are not switched on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.delegation_tokens import ERROR_TIMESTAMP_MS, refusal_of
from barnabas.broker.requests import Call
from barnabas.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 39


def handle(broker: Broker, request: RenewDelegationTokenRequest, call: Call) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(
        error_code=refusal_of(broker, call), expiry_timestamp_ms=ERROR_TIMESTAMP_MS, throttle_time_ms=0
    )
