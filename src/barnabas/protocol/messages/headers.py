"""The headers of requests and responses.

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string


class RequestHeader(Message, versions=(0, 2), flexible=2):
    """Precedes every request: API key, version, correlation id and client id."""

    request_api_key: int16
    request_api_version: int16
    correlation_id: int32
    client_id: string | None = field("1+", default="", ignorable=True, compact=False)


class ResponseHeader(Message, versions=(0, 1), flexible=1):
    """Precedes every response: the correlation id of its request."""

    correlation_id: int32
