"""DescribeGroups (api key 15).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string


class DescribeGroupsRequest(Message, key=15, versions=(0, 6), flexible=5):
    """The classic groups to describe."""

    groups: list[string]
    include_authorized_operations: bool = field("3+", default=False)


class DescribeGroupsResponse(Message, key=15, versions=(0, 6), flexible=5):
    """State, protocol and members of each group."""

    class DescribedGroupMember(Message):
        member_id: string
        group_instance_id: string | None = field("4+", default=None, ignorable=True)
        client_id: string
        client_host: string
        member_metadata: bytes
        member_assignment: bytes

    class DescribedGroup(Message):
        error_code: int16
        error_message: string | None = field("6+", default=None)
        group_id: string
        group_state: string
        protocol_type: string
        protocol_data: string
        members: list[DescribeGroupsResponse.DescribedGroupMember]
        authorized_operations: int32 = field("3+", default=-2147483648)

    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    groups: list[DescribedGroup]
