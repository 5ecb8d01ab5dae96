"""ShareGroupHeartbeat (api key 76).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string, uuid


class ShareGroupHeartbeatRequest(Message, key=76, versions=(1, 1), flexible=0):
    """The heartbeat of a member of a share group, with its subscription."""

    group_id: string
    member_id: string
    member_epoch: int32
    rack_id: string | None = field(default=None)
    subscribed_topic_names: list[string] | None = field(default=None)


class ShareGroupHeartbeatResponse(Message, key=76, versions=(1, 1), flexible=0):
    """The member's epoch, the heartbeat interval and, if changed, its assignment."""

    class TopicPartitions(Message):
        topic_id: uuid
        partitions: list[int32]

    class Assignment(Message):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions]

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = field(default=None)
    member_id: string | None = field(default=None)
    member_epoch: int32
    heartbeat_interval_ms: int32
    assignment: Assignment | None = field(default=None)
