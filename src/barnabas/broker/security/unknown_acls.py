"""Rules and filters that name something UNKNOWN: Apache Kafka cannot read such a request, and so hangs up."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.broker.network.request_context import CloseConnectionError
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest

UNKNOWN = 0


def refuse_unknown(
    asked: Iterable[CreateAclsRequest.AclCreation | DeleteAclsRequest.Filter | DescribeAclsRequest],
) -> None:
    """A number that nobody has given a meaning yet is another matter: that one is looked at."""
    for one in asked:
        if isinstance(one, CreateAclsRequest.AclCreation):
            kinds = (one.resource_type, one.resource_pattern_type)
        else:
            kinds = (one.resource_type_filter, one.pattern_type_filter)
        if UNKNOWN in (*kinds, one.operation, one.permission_type):
            raise CloseConnectionError("a rule or a filter has an UNKNOWN part")
