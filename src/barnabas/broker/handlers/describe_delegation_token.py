"""DescribeDelegationToken (key 41, versions 1-3): refused, as where tokens are not switched on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.delegation_tokens import refusal_of
from barnabas.broker.requests import Call
from barnabas.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 41


def handle(
    broker: Broker, request: DescribeDelegationTokenRequest, call: Call
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=refusal_of(broker, call), tokens=[], throttle_time_ms=0)
