"""ACLs and filters with an UNKNOWN value: Apache Kafka cannot decode them and closes the connection."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.broker.network.request_context import CloseConnectionError
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest

UNKNOWN = 0


def refuse_unknown(
    acls: Iterable[CreateAclsRequest.AclCreation | DeleteAclsRequest.Filter | DescribeAclsRequest],
) -> None:
    """Closes the connection on the value UNKNOWN; numbers without a meaning are evaluated."""
    for acl in acls:
        if isinstance(acl, CreateAclsRequest.AclCreation):
            types = (acl.resource_type, acl.resource_pattern_type)
        else:
            types = (acl.resource_type_filter, acl.pattern_type_filter)
        if UNKNOWN in (*types, acl.operation, acl.permission_type):
            raise CloseConnectionError("an ACL or a filter has an UNKNOWN value")
