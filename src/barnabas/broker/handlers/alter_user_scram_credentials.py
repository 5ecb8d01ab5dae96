"""AlterUserScramCredentials (key 51, version 0): store or delete what proves users' passwords (KIP-554).

* The client sends salt and salted password; what is stored is derived from them by the controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 51


def handle(
    broker: Broker, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> Promise[Message]:
    check_cluster(broker.authorizer, context, Operation.ALTER)
    return broker.metadata.ask(request, context.api_version, context.principal)


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
