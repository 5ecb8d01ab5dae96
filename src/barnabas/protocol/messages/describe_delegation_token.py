"""DescribeDelegationToken (api key 41).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string


class DescribeDelegationTokenRequest(Message, key=41, versions=(1, 3), flexible=2):
    """The owners whose tokens to list."""

    class Owner(Message):
        principal_type: string
        principal_name: string

    owners: list[Owner] | None


class DescribeDelegationTokenResponse(Message, key=41, versions=(1, 3), flexible=2):
    """The tokens with owner, renewers and timestamps."""

    class DescribedDelegationTokenRenewer(Message):
        principal_type: string
        principal_name: string

    class DescribedDelegationToken(Message):
        principal_type: string
        principal_name: string
        token_requester_principal_type: string = field("3+", default="")
        token_requester_principal_name: string = field("3+", default="")
        issue_timestamp: int64
        expiry_timestamp: int64
        max_timestamp: int64
        token_id: string
        hmac: bytes
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer]

    error_code: int16
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: int32
