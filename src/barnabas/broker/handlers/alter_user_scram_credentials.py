"""AlterUserScramCredentials (key 51, version 0): stores or deletes SCRAM credentials of users (KIP-554).

* The client sends salt and salted password; the controller derives the stored keys from them.
"""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)

KEY = 51


def refuse(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str
) -> AlterUserScramCredentialsResponse:
    """Every user gets the error once, by name."""
    users = {deletion.name for deletion in request.deletions}
    users |= {upsertion.name for upsertion in request.upsertions}
    results = [
        AlterUserScramCredentialsResponse.Result(user=user, error_code=code, error_message=message)
        for user in sorted(users)
    ]
    return AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results)
