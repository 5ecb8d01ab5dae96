"""SyncGroup (api key 14).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string


class SyncGroupRequest(Message, key=14, versions=(0, 5), flexible=4):
    """The leader sends the assignments of a generation; all members wait for theirs."""

    class Assignment(Message):
        member_id: string
        assignment: bytes

    group_id: string
    generation_id: int32
    member_id: string
    group_instance_id: string | None = field("3+", default=None)
    protocol_type: string | None = field("5+", default=None, ignorable=True)
    protocol_name: string | None = field("5+", default=None, ignorable=True)
    assignments: list[Assignment]


class SyncGroupResponse(Message, key=14, versions=(0, 5), flexible=4):
    """The member's own assignment."""

    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16
    protocol_type: string | None = field("5+", default=None, ignorable=True)
    protocol_name: string | None = field("5+", default=None, ignorable=True)
    assignment: bytes
