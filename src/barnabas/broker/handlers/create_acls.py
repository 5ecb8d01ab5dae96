"""CreateAcls (key 30, versions 1-3): store access rules (KIP-140, KIP-290).

* SECURITY_DISABLED where no authorizer is configured: rules that nobody judges by would be believed in.
* Each rule is taken or refused by itself; one that is there already is taken and not stored again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.authorizer import Operation, check_cluster
from barnabas.broker.requests import Call
from barnabas.broker.unknown_rules import refuse_unknown
from barnabas.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.later import Later

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 30


def handle(broker: Broker, request: CreateAclsRequest, call: Call) -> Later[Message]:
    refuse_unknown(request.creations)
    check_cluster(broker.authorizer, call, Operation.ALTER)
    if broker.authorizer.rules() is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    return broker.metadata.ask(request, call.api_version, call.principal)


def refuse(request: CreateAclsRequest, code: ErrorCode, message: str) -> CreateAclsResponse:
    """Every rule gets the error."""
    results = [
        CreateAclsResponse.AclCreationResult(error_code=code, error_message=message)
        for _ in request.creations
    ]
    return CreateAclsResponse(throttle_time_ms=0, results=results)
