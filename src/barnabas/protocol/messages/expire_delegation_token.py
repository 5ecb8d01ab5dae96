"""ExpireDelegationToken (api key 40).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int16, int32, int64


class ExpireDelegationTokenRequest(Message, key=40, versions=(1, 2), flexible=2):
    """Sets or shortens the expiry time of a token."""

    hmac: bytes
    expiry_time_period_ms: int64


class ExpireDelegationTokenResponse(Message, key=40, versions=(1, 2), flexible=2):
    """The expiry time of the token."""

    error_code: int16
    expiry_timestamp_ms: int64
    throttle_time_ms: int32
