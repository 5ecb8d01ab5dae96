"""AssignReplicasToDirs (api key 73).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, uuid


class AssignReplicasToDirsRequest(Message, key=73, versions=(0, 0), flexible=0):
    """A broker reports which directory holds which replica."""

    class PartitionData(Message):
        partition_index: int32

    class TopicData(Message):
        topic_id: uuid
        partitions: list[AssignReplicasToDirsRequest.PartitionData]

    class DirectoryData(Message):
        id: uuid
        topics: list[AssignReplicasToDirsRequest.TopicData]

    broker_id: int32
    broker_epoch: int64 = field(default=-1)
    directories: list[DirectoryData]


class AssignReplicasToDirsResponse(Message, key=73, versions=(0, 0), flexible=0):
    """The outcome for each replica."""

    class PartitionData(Message):
        partition_index: int32
        error_code: int16

    class TopicData(Message):
        topic_id: uuid
        partitions: list[AssignReplicasToDirsResponse.PartitionData]

    class DirectoryData(Message):
        id: uuid
        topics: list[AssignReplicasToDirsResponse.TopicData]

    throttle_time_ms: int32
    error_code: int16
    directories: list[DirectoryData]
