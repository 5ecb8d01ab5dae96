"""DescribeAcls (api key 29).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, string


class DescribeAclsRequest(Message, key=29, versions=(1, 3), flexible=2):
    """A filter for ACLs."""

    resource_type_filter: int8
    resource_name_filter: string | None
    pattern_type_filter: int8 = field(default=3)
    principal_filter: string | None
    host_filter: string | None
    operation: int8
    permission_type: int8


class DescribeAclsResponse(Message, key=29, versions=(1, 3), flexible=2):
    """The matching ACLs, by resource."""

    class AclDescription(Message):
        principal: string
        host: string
        operation: int8
        permission_type: int8

    class Resource(Message):
        resource_type: int8
        resource_name: string
        pattern_type: int8 = field(default=3)
        acls: list[DescribeAclsResponse.AclDescription]

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
    resources: list[Resource]
