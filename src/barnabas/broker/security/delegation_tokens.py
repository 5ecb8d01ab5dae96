"""Delegation tokens (KIP-48) are not built: requests for them are refused as where they are switched off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.network.request_context import RequestContext

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

# In place of every time of a token that there is not.
ERROR_TIMESTAMP_MS = -1
PLAINTEXT = "PLAINTEXT"


def refusal_of(broker: Broker, context: RequestContext) -> ErrorCode:
    """Who has not authenticated is not told whether there are tokens."""
    if broker.node.listeners.protocols.get(context.listener, PLAINTEXT) == PLAINTEXT:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
