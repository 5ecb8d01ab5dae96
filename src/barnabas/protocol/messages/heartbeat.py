"""Heartbeat (api key 12).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string


class HeartbeatRequest(Message, key=12, versions=(0, 4), flexible=4):
    """The heartbeat of a member of a classic group."""

    group_id: string
    generation_id: int32
    member_id: string
    group_instance_id: string | None = field("3+", default=None)


class HeartbeatResponse(Message, key=12, versions=(0, 4), flexible=4):
    """Success, or that the group is rebalancing."""

    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16
