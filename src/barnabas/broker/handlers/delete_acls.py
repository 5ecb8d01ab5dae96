"""DeleteAcls (key 31, versions 1-3): deletes all ACLs that a filter matches (KIP-140, KIP-290).

* SECURITY_DISABLED if no authorizer is configured.  Each filter's result lists the ACLs that it deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.controller_requests import send_to_controller
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.broker.security.unknown_acls import refuse_unknown
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 31


def handle(broker: Broker, request: DeleteAclsRequest, context: RequestContext) -> Promise[Message]:
    refuse_unknown(request.filters)
    check_cluster(broker.authorizer, context, Operation.ALTER)
    if broker.authorizer.acls() is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    return send_to_controller(broker, context, request)


def refuse(request: DeleteAclsRequest, code: ErrorCode, message: str) -> DeleteAclsResponse:
    """Every filter gets the error."""
    results = [
        DeleteAclsResponse.FilterResult(error_code=code, error_message=message, matching_acls=[])
        for _ in request.filters
    ]
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=results)
