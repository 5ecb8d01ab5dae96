"""DescribeDelegationToken (key 41, versions 1-3): refused, as delegation tokens are disabled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.delegation_tokens import refusal_of
from barnabas.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 41


def handle(
    broker: Broker, request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(
        error_code=refusal_of(broker, context), tokens=[], throttle_time_ms=0
    )
