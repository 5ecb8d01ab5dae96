"""AlterUserScramCredentials (api key 51).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int8, int16, int32, string


class AlterUserScramCredentialsRequest(Message, key=51, versions=(0, 0), flexible=0):
    """SCRAM credentials to delete, insert or replace."""

    class ScramCredentialDeletion(Message):
        name: string
        mechanism: int8

    class ScramCredentialUpsertion(Message):
        name: string
        mechanism: int8
        iterations: int32
        salt: bytes
        salted_password: bytes

    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


class AlterUserScramCredentialsResponse(Message, key=51, versions=(0, 0), flexible=0):
    """The outcome for each user."""

    class Result(Message):
        user: string
        error_code: int16
        error_message: string | None

    throttle_time_ms: int32
    results: list[Result]
