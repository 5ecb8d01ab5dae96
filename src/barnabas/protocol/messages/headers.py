"""What stands before requests and responses.

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string


class RequestHeader(Message, versions=(0, 2), flexible=2):
    """Before every request: what it is, its version, and the number its answer will carry."""

    request_api_key: int16
    request_api_version: int16
    correlation_id: int32
    client_id: string | None = field("1+", default="", ignorable=True, compact=False)


class ResponseHeader(Message, versions=(0, 1), flexible=1):
    """Before every response: the number of the request it answers."""

    correlation_id: int32
