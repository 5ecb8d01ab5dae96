"""CreateTopics (api key 19).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.schema import Message, field, int8, int16, int32, string, uuid


class CreateTopicsRequest(Message, key=19, versions=(2, 7), flexible=5):
    """Topics to create, with partition counts or assignments."""

    class CreatableReplicaAssignment(Message):
        partition_index: int32
        broker_ids: list[int32]

    class CreatableTopicConfig(Message):
        name: string
        value: string | None

    class CreatableTopic(Message):
        name: string
        num_partitions: int32
        replication_factor: int16
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment]
        configs: list[CreateTopicsRequest.CreatableTopicConfig]

    topics: list[CreatableTopic]
    timeout_ms: int32 = field(default=60000)
    validate_only: bool = field(default=False)


class CreateTopicsResponse(Message, key=19, versions=(2, 7), flexible=5):
    """The outcome for each topic, with its id and configuration."""

    class CreatableTopicConfigs(Message):
        name: string
        value: string | None
        read_only: bool
        config_source: int8 = field(default=-1)
        is_sensitive: bool

    class CreatableTopicResult(Message):
        name: string
        topic_id: uuid = field("7+", default=ZERO_UUID, ignorable=True)
        error_code: int16
        error_message: string | None
        topic_config_error_code: int16 = field("5+", tag=0, default=0, ignorable=True)
        num_partitions: int32 = field("5+", default=-1, ignorable=True)
        replication_factor: int16 = field("5+", default=-1, ignorable=True)
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = field(
            "5+", default=[], ignorable=True
        )

    throttle_time_ms: int32
    topics: list[CreatableTopicResult]
