"""LeaveGroup (api key 13).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string


class LeaveGroupRequest(Message, key=13, versions=(0, 5), flexible=4):
    """Members leave a classic group."""

    class MemberIdentity(Message):
        member_id: string
        group_instance_id: string | None = field(default=None)
        reason: string | None = field("5+", default=None, ignorable=True)

    group_id: string
    member_id: string = field("0-2", default="")
    members: list[MemberIdentity] = field("3+", default=[])


class LeaveGroupResponse(Message, key=13, versions=(0, 5), flexible=4):
    """The outcome for each member."""

    class MemberResponse(Message):
        member_id: string
        group_instance_id: string | None
        error_code: int16

    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16
    members: list[MemberResponse] = field("3+", default=[])
