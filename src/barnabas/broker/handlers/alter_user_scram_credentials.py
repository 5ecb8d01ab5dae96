"""AlterUserScramCredentials (key 51, version 0): store or delete what proves users' passwords (KIP-554).

* The client sends salt and salted password; what is stored is derived from them by the controller.
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
    users = {one.name for one in request.deletions} | {one.name for one in request.upsertions}
    results = [
        AlterUserScramCredentialsResponse.Result(user=user, error_code=code, error_message=message)
        for user in sorted(users)
    ]
    return AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results)
