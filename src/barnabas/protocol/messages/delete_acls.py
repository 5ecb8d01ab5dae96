"""DeleteAcls (api key 31).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, string


class DeleteAclsRequest(Message, key=31, versions=(1, 3), flexible=2):
    """Filters; every ACL that matches one is deleted."""

    class Filter(Message):
        resource_type_filter: int8
        resource_name_filter: string | None
        pattern_type_filter: int8 = field(default=3)
        principal_filter: string | None
        host_filter: string | None
        operation: int8
        permission_type: int8

    filters: list[Filter]


class DeleteAclsResponse(Message, key=31, versions=(1, 3), flexible=2):
    """The ACLs that each filter deleted."""

    class MatchingAcl(Message):
        error_code: int16
        error_message: string | None
        resource_type: int8
        resource_name: string
        pattern_type: int8 = field(default=3)
        principal: string
        host: string
        operation: int8
        permission_type: int8

    class FilterResult(Message):
        error_code: int16
        error_message: string | None
        matching_acls: list[DeleteAclsResponse.MatchingAcl]

    throttle_time_ms: int32
    filter_results: list[FilterResult]
