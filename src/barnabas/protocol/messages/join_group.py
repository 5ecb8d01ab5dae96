"""JoinGroup (api key 11).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string


class JoinGroupRequest(Message, key=11, versions=(0, 9), flexible=6):
    """A member joins a classic group, with its supported assignors."""

    class Protocol(Message):
        name: string
        metadata: bytes

    group_id: string
    session_timeout_ms: int32
    rebalance_timeout_ms: int32 = field("1+", default=-1, ignorable=True)
    member_id: string
    group_instance_id: string | None = field("5+", default=None)
    protocol_type: string
    protocols: list[Protocol]
    reason: string | None = field("8+", default=None, ignorable=True)


class JoinGroupResponse(Message, key=11, versions=(0, 9), flexible=6):
    """The generation, the chosen assignor and, for the leader, all members."""

    class Member(Message):
        member_id: string
        group_instance_id: string | None = field("5+", default=None, ignorable=True)
        metadata: bytes

    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    error_code: int16
    generation_id: int32 = field(default=-1)
    protocol_type: string | None = field("7+", default=None, ignorable=True)
    protocol_name: string | None = field(nullable="7+")
    leader: string
    skip_assignment: bool = field("9+", default=False)
    member_id: string
    members: list[Member]
