"""CreateAcls (key 30, versions 1-3): store access rules (KIP-140, KIP-290).

* SECURITY_DISABLED where no authorizer is configured: rules that nobody judges by would be believed in.
* Each rule is taken or refused by itself; one that is there already is taken and not stored again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.broker.security.unknown_acls import refuse_unknown
from barnabas.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 30


def handle(broker: Broker, request: CreateAclsRequest, context: RequestContext) -> Promise[Message]:
    refuse_unknown(request.creations)
    check_cluster(broker.authorizer, context, Operation.ALTER)
    if broker.authorizer.rules() is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    return broker.metadata.ask(request, context.api_version, context.principal)


def refuse(request: CreateAclsRequest, code: ErrorCode, message: str) -> CreateAclsResponse:
    """Every rule gets the error."""
    results = [
        CreateAclsResponse.AclCreationResult(error_code=code, error_message=message)
        for _ in request.creations
    ]
    return CreateAclsResponse(throttle_time_ms=0, results=results)
