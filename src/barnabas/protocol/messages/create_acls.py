"""CreateAcls (api key 30).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, string


class CreateAclsRequest(Message, key=30, versions=(1, 3), flexible=2):
    """ACLs to add."""

    class AclCreation(Message):
        resource_type: int8
        resource_name: string
        resource_pattern_type: int8 = field(default=3)
        principal: string
        host: string
        operation: int8
        permission_type: int8

    creations: list[AclCreation]


class CreateAclsResponse(Message, key=30, versions=(1, 3), flexible=2):
    """The outcome for each ACL."""

    class AclCreationResult(Message):
        error_code: int16
        error_message: string | None

    throttle_time_ms: int32
    results: list[AclCreationResult]
