"""CreateAcls (key 30, versions 1-3): stores ACLs (KIP-140, KIP-290).

* SECURITY_DISABLED if no authorizer is configured: users would rely on ACLs that are not enforced.
* Each ACL succeeds or fails independently; one that exists already succeeds and is not stored again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.controller_requests import send_to_controller
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
    if broker.authorizer.acls() is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    return send_to_controller(broker, context, request)


def refuse(request: CreateAclsRequest, code: ErrorCode, message: str) -> CreateAclsResponse:
    """Every ACL gets the error."""
    results = [
        CreateAclsResponse.AclCreationResult(error_code=code, error_message=message)
        for _ in request.creations
    ]
    return CreateAclsResponse(throttle_time_ms=0, results=results)
