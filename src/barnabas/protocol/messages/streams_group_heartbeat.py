"""StreamsGroupHeartbeat (api key 88).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, int64, string, uint16


class StreamsGroupHeartbeatRequest(Message, key=88, versions=(0, 0), flexible=0):
    """The heartbeat of a member of a streams group (KIP-1071), with its topology and tasks."""

    class KeyValue(Message):
        key: string
        value: string

    class TopicInfo(Message):
        name: string
        partitions: int32
        replication_factor: int16
        topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue]

    class CopartitionGroup(Message):
        source_topics: list[int16]
        source_topic_regex: list[int16]
        repartition_source_topics: list[int16]

    class Subtopology(Message):
        subtopology_id: string
        source_topics: list[string]
        source_topic_regex: list[string]
        state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo]
        repartition_sink_topics: list[string]
        repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo]
        copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup]

    class Topology(Message):
        epoch: int32
        subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology]

    class TaskIds(Message):
        subtopology_id: string
        partitions: list[int32]

    class Endpoint(Message):
        host: string
        port: uint16

    class TaskOffset(Message):
        subtopology_id: string
        partition: int32
        offset: int64

    group_id: string
    member_id: string
    member_epoch: int32
    endpoint_information_epoch: int32
    instance_id: string | None = field(default=None)
    rack_id: string | None = field(default=None)
    rebalance_timeout_ms: int32 = field(default=-1)
    topology: Topology | None = field(default=None)
    active_tasks: list[TaskIds] | None = field(default=None)
    standby_tasks: list[TaskIds] | None = field(default=None)
    warmup_tasks: list[TaskIds] | None = field(default=None)
    process_id: string | None = field(default=None)
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: list[KeyValue] | None = field(default=None)
    task_offsets: list[TaskOffset] | None = field(default=None)
    task_end_offsets: list[TaskOffset] | None = field(default=None)
    shutdown_application: bool = field(default=False)


class StreamsGroupHeartbeatResponse(Message, key=88, versions=(0, 0), flexible=0):
    """The member's epoch, the heartbeat interval and, if changed, its tasks."""

    class Status(Message):
        status_code: int8
        status_detail: string

    class TaskIds(Message):
        subtopology_id: string
        partitions: list[int32]

    class Endpoint(Message):
        host: string
        port: uint16

    class TopicPartition(Message):
        topic: string
        partitions: list[int32]

    class EndpointToPartitions(Message):
        user_endpoint: StreamsGroupHeartbeatResponse.Endpoint
        active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition]
        standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition]

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = field(default=None)
    member_id: string
    member_epoch: int32
    heartbeat_interval_ms: int32
    acceptable_recovery_lag: int32
    task_offset_interval_ms: int32
    status: list[Status] | None = field(default=None)
    active_tasks: list[TaskIds] | None = field(default=None)
    standby_tasks: list[TaskIds] | None = field(default=None)
    warmup_tasks: list[TaskIds] | None = field(default=None)
    endpoint_information_epoch: int32
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(default=None)
