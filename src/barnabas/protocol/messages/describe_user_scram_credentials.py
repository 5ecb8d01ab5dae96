"""DescribeUserScramCredentials (api key 50).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int8, int16, int32, string


class DescribeUserScramCredentialsRequest(Message, key=50, versions=(0, 0), flexible=0):
    """Users to describe; null means all."""

    class UserName(Message):
        name: string

    users: list[UserName] | None


class DescribeUserScramCredentialsResponse(Message, key=50, versions=(0, 0), flexible=0):
    """The mechanisms and iterations of each user, never the secrets."""

    class CredentialInfo(Message):
        mechanism: int8
        iterations: int32

    class Result(Message):
        user: string
        error_code: int16
        error_message: string | None
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo]

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
    results: list[Result]
