"""EndQuorumEpoch (api key 54).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string, uint16, uuid


class EndQuorumEpochRequest(Message, key=54, versions=(0, 1), flexible=1):
    """A leader of the quorum resigns and names its successors."""

    class ReplicaInfo(Message):
        candidate_id: int32
        candidate_directory_id: uuid

    class PartitionData(Message):
        partition_index: int32
        leader_id: int32
        leader_epoch: int32
        preferred_successors: list[int32] = field("0", default=[], ignorable=True)
        preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo] = field(
            "1+", default=[], ignorable=True
        )

    class TopicData(Message):
        topic_name: string
        partitions: list[EndQuorumEpochRequest.PartitionData]

    class LeaderEndpoint(Message):
        name: string
        host: string
        port: uint16

    cluster_id: string | None = field(default=None)
    topics: list[TopicData]
    leader_endpoints: list[LeaderEndpoint] = field("1+", default=[], ignorable=True)


class EndQuorumEpochResponse(Message, key=54, versions=(0, 1), flexible=1):
    """The receiver's view of leader and epoch."""

    class PartitionData(Message):
        partition_index: int32
        error_code: int16
        leader_id: int32
        leader_epoch: int32

    class TopicData(Message):
        topic_name: string
        partitions: list[EndQuorumEpochResponse.PartitionData]

    class NodeEndpoint(Message):
        node_id: int32
        host: string
        port: uint16

    error_code: int16
    topics: list[TopicData]
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, default=[])
