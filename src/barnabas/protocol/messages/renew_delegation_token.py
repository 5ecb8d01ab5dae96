"""RenewDelegationToken (api key 39).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int16, int32, int64


class RenewDelegationTokenRequest(Message, key=39, versions=(1, 2), flexible=2):
    """Extends the expiry time of a token."""

    hmac: bytes
    renew_period_ms: int64


class RenewDelegationTokenResponse(Message, key=39, versions=(1, 2), flexible=2):
    """The new expiry time of the token."""

    error_code: int16
    expiry_timestamp_ms: int64
    throttle_time_ms: int32
