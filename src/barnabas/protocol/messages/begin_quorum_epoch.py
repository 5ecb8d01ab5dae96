"""BeginQuorumEpoch (api key 53).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.schema import Message, field, int16, int32, string, uint16, uuid


class BeginQuorumEpochRequest(Message, key=53, versions=(0, 1), flexible=1):
    """A newly elected leader of the quorum announces itself."""

    class PartitionData(Message):
        partition_index: int32
        voter_directory_id: uuid = field("1+", default=ZERO_UUID, ignorable=True)
        leader_id: int32
        leader_epoch: int32

    class TopicData(Message):
        topic_name: string
        partitions: list[BeginQuorumEpochRequest.PartitionData]

    class LeaderEndpoint(Message):
        name: string
        host: string
        port: uint16

    cluster_id: string | None = field(default=None)
    voter_id: int32 = field("1+", default=-1, ignorable=True)
    topics: list[TopicData]
    leader_endpoints: list[LeaderEndpoint] = field("1+", default=[], ignorable=True)


class BeginQuorumEpochResponse(Message, key=53, versions=(0, 1), flexible=1):
    """The receiver's view of leader and epoch."""

    class PartitionData(Message):
        partition_index: int32
        error_code: int16
        leader_id: int32
        leader_epoch: int32

    class TopicData(Message):
        topic_name: string
        partitions: list[BeginQuorumEpochResponse.PartitionData]

    class NodeEndpoint(Message):
        node_id: int32
        host: string
        port: uint16

    error_code: int16
    topics: list[TopicData]
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, default=[])
