"""DescribeAcls (key 29, versions 1-3): the ACLs that a filter matches, by resource (KIP-140, KIP-290).

* SECURITY_DISABLED if no authorizer is configured.
* A filter with an UNKNOWN type is invalid: the broker closes the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.broker.security.unknown_acls import refuse_unknown
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from barnabas.security.acls import matches

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 29


def handle(broker: Broker, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    refuse_unknown([request])
    check_cluster(broker.authorizer, context, Operation.DESCRIBE)
    acls = broker.authorizer.acls()
    if acls is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    resources: dict[tuple[int, str, int], DescribeAclsResponse.Resource] = {}
    for acl in acls:
        if not matches(request, acl):
            continue
        key = (acl.resource_type, acl.resource_name, acl.pattern_type)
        if key not in resources:
            resources[key] = DescribeAclsResponse.Resource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                acls=[],
            )
        resources[key].acls.append(
            DescribeAclsResponse.AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
        )
    return DescribeAclsResponse(
        throttle_time_ms=0, error_code=0, error_message="", resources=list(resources.values())
    )
