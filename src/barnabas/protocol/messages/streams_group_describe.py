"""StreamsGroupDescribe (api key 89).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string, uint16


class StreamsGroupDescribeRequest(Message, key=89, versions=(0, 0), flexible=0):
    """The streams groups (KIP-1071) to describe."""

    group_ids: list[string]
    include_authorized_operations: bool


class StreamsGroupDescribeResponse(Message, key=89, versions=(0, 0), flexible=0):
    """Topology, members and tasks of each group."""

    class KeyValue(Message):
        key: string
        value: string

    class TopicInfo(Message):
        name: string
        partitions: int32
        replication_factor: int16
        topic_configs: list[StreamsGroupDescribeResponse.KeyValue]

    class Subtopology(Message):
        subtopology_id: string
        source_topics: list[string]
        repartition_sink_topics: list[string]
        state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo]
        repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo]

    class Topology(Message):
        epoch: int32
        subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = field(default=None)

    class Endpoint(Message):
        host: string
        port: uint16

    class TaskOffset(Message):
        subtopology_id: string
        partition: int32
        offset: int64

    class TaskIds(Message):
        subtopology_id: string
        partitions: list[int32]

    class Assignment(Message):
        active_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        standby_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds]

    class Member(Message):
        member_id: string
        member_epoch: int32
        instance_id: string | None = field(default=None)
        rack_id: string | None = field(default=None)
        client_id: string
        client_host: string
        topology_epoch: int32
        process_id: string
        user_endpoint: StreamsGroupDescribeResponse.Endpoint | None = field(default=None)
        client_tags: list[StreamsGroupDescribeResponse.KeyValue]
        task_offsets: list[StreamsGroupDescribeResponse.TaskOffset]
        task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset]
        assignment: StreamsGroupDescribeResponse.Assignment
        target_assignment: StreamsGroupDescribeResponse.Assignment
        is_classic: bool

    class DescribedGroup(Message):
        error_code: int16
        error_message: string | None = field(default=None)
        group_id: string
        group_state: string
        group_epoch: int32
        assignment_epoch: int32
        topology: StreamsGroupDescribeResponse.Topology | None = field(default=None)
        members: list[StreamsGroupDescribeResponse.Member]
        authorized_operations: int32 = field(default=-2147483648)

    throttle_time_ms: int32
    groups: list[DescribedGroup]
