"""CreateDelegationToken (api key 38).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string


class CreateDelegationTokenRequest(Message, key=38, versions=(1, 3), flexible=2):
    """Requests a token for the caller or, as a superuser, for another owner."""

    class CreatableRenewers(Message):
        principal_type: string
        principal_name: string

    owner_principal_type: string | None = field("3+", default="")
    owner_principal_name: string | None = field("3+", default="")
    renewers: list[CreatableRenewers]
    max_lifetime_ms: int64


class CreateDelegationTokenResponse(Message, key=38, versions=(1, 3), flexible=2):
    """The token with its secret and its timestamps."""

    error_code: int16
    principal_type: string
    principal_name: string
    token_requester_principal_type: string = field("3+", default="")
    token_requester_principal_name: string = field("3+", default="")
    issue_timestamp_ms: int64
    expiry_timestamp_ms: int64
    max_timestamp_ms: int64
    token_id: string
    hmac: bytes
    throttle_time_ms: int32
