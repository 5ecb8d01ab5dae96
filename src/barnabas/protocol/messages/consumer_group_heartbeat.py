"""ConsumerGroupHeartbeat (api key 68).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string, uuid


class ConsumerGroupHeartbeatRequest(Message, key=68, versions=(0, 1), flexible=0):
    """The heartbeat of a member of a consumer group (KIP-848), with its subscription and partitions."""

    class TopicPartitions(Message):
        topic_id: uuid
        partitions: list[int32]

    group_id: string
    member_id: string
    member_epoch: int32
    instance_id: string | None = field(default=None)
    rack_id: string | None = field(default=None)
    rebalance_timeout_ms: int32 = field(default=-1)
    subscribed_topic_names: list[string] | None = field(default=None)
    subscribed_topic_regex: string | None = field("1+", default=None)
    server_assignor: string | None = field(default=None)
    topic_partitions: list[TopicPartitions] | None = field(default=None)


class ConsumerGroupHeartbeatResponse(Message, key=68, versions=(0, 1), flexible=0):
    """The member's epoch, the heartbeat interval and, if changed, its assignment."""

    class TopicPartitions(Message):
        topic_id: uuid
        partitions: list[int32]

    class Assignment(Message):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions]

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = field(default=None)
    member_id: string | None = field(default=None)
    member_epoch: int32
    heartbeat_interval_ms: int32
    assignment: Assignment | None = field(default=None)
