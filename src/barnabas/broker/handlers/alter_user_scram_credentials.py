"""AlterUserScramCredentials (key 51, version 0): store or delete what proves users' passwords (KIP-554).

* The client sends salt and salted password; what is stored is derived from them by the controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.authorizer import Operation, check_cluster
from barnabas.broker.requests import Call
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.later import Later

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 51


def handle(broker: Broker, request: AlterUserScramCredentialsRequest, call: Call) -> Later[Message]:
    check_cluster(broker.authorizer, call, Operation.ALTER)
    return broker.metadata.ask(request, call.api_version, call.principal)


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
