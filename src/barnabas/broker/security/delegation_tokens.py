"""Delegation tokens (KIP-48) are not implemented: requests get the errors of a broker that disables them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.network.request_context import RequestContext

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

# The timestamps of an error response.
ERROR_TIMESTAMP_MS = -1
PLAINTEXT = "PLAINTEXT"


def refusal_of(broker: Broker, context: RequestContext) -> ErrorCode:
    """Returns the error of a token request; it depends on whether the client is authenticated."""
    if broker.node.listeners.protocols.get(context.listener, PLAINTEXT) == PLAINTEXT:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
