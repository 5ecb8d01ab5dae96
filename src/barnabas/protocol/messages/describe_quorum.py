"""DescribeQuorum (api key 55).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.schema import Message, field, int16, int32, int64, string, uint16, uuid


class DescribeQuorumRequest(Message, key=55, versions=(0, 2), flexible=0):
    """Requests the state of the metadata quorum."""

    class PartitionData(Message):
        partition_index: int32

    class TopicData(Message):
        topic_name: string
        partitions: list[DescribeQuorumRequest.PartitionData]

    topics: list[TopicData]


class DescribeQuorumResponse(Message, key=55, versions=(0, 2), flexible=0):
    """Leader, epoch, high watermark and the log end offset of each replica."""

    class ReplicaState(Message):
        replica_id: int32
        replica_directory_id: uuid = field("2+", default=ZERO_UUID)
        log_end_offset: int64
        last_fetch_timestamp: int64 = field("1+", default=-1, ignorable=True)
        last_caught_up_timestamp: int64 = field("1+", default=-1, ignorable=True)

    class PartitionData(Message):
        partition_index: int32
        error_code: int16
        error_message: string | None = field("2+", default="", ignorable=True)
        leader_id: int32
        leader_epoch: int32
        high_watermark: int64
        current_voters: list[DescribeQuorumResponse.ReplicaState]
        observers: list[DescribeQuorumResponse.ReplicaState]

    class TopicData(Message):
        topic_name: string
        partitions: list[DescribeQuorumResponse.PartitionData]

    class Listener(Message):
        name: string
        host: string
        port: uint16

    class Node(Message):
        node_id: int32
        listeners: list[DescribeQuorumResponse.Listener]

    error_code: int16
    error_message: string | None = field("2+", default="", ignorable=True)
    topics: list[TopicData]
    nodes: list[Node] = field("2+", default=[])
