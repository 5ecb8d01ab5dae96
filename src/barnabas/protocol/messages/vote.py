"""Vote (api key 52).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.schema import Message, field, int16, int32, int64, string, uint16, uuid


class VoteRequest(Message, key=52, versions=(0, 2), flexible=0):
    """A candidate, or from version 2 a prospective one, requests a vote."""

    class PartitionData(Message):
        partition_index: int32
        replica_epoch: int32
        replica_id: int32
        replica_directory_id: uuid = field("1+", default=ZERO_UUID, ignorable=True)
        voter_directory_id: uuid = field("1+", default=ZERO_UUID, ignorable=True)
        last_offset_epoch: int32
        last_offset: int64
        pre_vote: bool = field("2+", default=False)

    class TopicData(Message):
        topic_name: string
        partitions: list[VoteRequest.PartitionData]

    cluster_id: string | None = field(default=None)
    voter_id: int32 = field("1+", default=-1, ignorable=True)
    topics: list[TopicData]


class VoteResponse(Message, key=52, versions=(0, 2), flexible=0):
    """Whether the vote was granted."""

    class PartitionData(Message):
        partition_index: int32
        error_code: int16
        leader_id: int32
        leader_epoch: int32
        vote_granted: bool

    class TopicData(Message):
        topic_name: string
        partitions: list[VoteResponse.PartitionData]

    class NodeEndpoint(Message):
        node_id: int32
        host: string
        port: uint16

    error_code: int16
    topics: list[TopicData]
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, default=[])
