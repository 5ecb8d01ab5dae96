"""DescribeAcls (key 29, versions 1-3): the access rules that a filter matches, by resource.

* KIP-140, KIP-290.  SECURITY_DISABLED where no authorizer is configured.
* A filter of the kind UNKNOWN is no request: the connection is closed.
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
    rules = broker.authorizer.rules()
    if rules is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    resources: dict[tuple[int, str, int], DescribeAclsResponse.Resource] = {}
    for rule in rules:
        if not matches(request, rule):
            continue
        key = (rule.resource_type, rule.resource_name, rule.pattern_type)
        if key not in resources:
            resources[key] = DescribeAclsResponse.Resource(
                resource_type=rule.resource_type,
                resource_name=rule.resource_name,
                pattern_type=rule.pattern_type,
                acls=[],
            )
        resources[key].acls.append(
            DescribeAclsResponse.AclDescription(
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission_type,
            )
        )
    return DescribeAclsResponse(
        throttle_time_ms=0, error_code=0, error_message="", resources=list(resources.values())
    )
