"""SaslAuthenticate (api key 36).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int64, string


class SaslAuthenticateRequest(Message, key=36, versions=(0, 2), flexible=2):
    """Bytes of the client's side of SASL."""

    auth_bytes: bytes


class SaslAuthenticateResponse(Message, key=36, versions=(0, 2), flexible=2):
    """Bytes of the server's side."""

    error_code: int16
    error_message: string | None
    auth_bytes: bytes
    session_lifetime_ms: int64 = field("1+", default=0, ignorable=True)
