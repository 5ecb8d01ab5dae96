"""ShareAcknowledge (api key 79).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, int64, string, uuid


class ShareAcknowledgeRequest(Message, key=79, versions=(1, 1), flexible=0):
    """A member of a share group accepts, releases or rejects records."""

    class AcknowledgementBatch(Message):
        first_offset: int64
        last_offset: int64
        acknowledge_types: list[int8]

    class AcknowledgePartition(Message):
        partition_index: int32
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch]

    class AcknowledgeTopic(Message):
        topic_id: uuid
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition]

    group_id: string | None = field(default=None)
    member_id: string | None
    share_session_epoch: int32
    topics: list[AcknowledgeTopic]


class ShareAcknowledgeResponse(Message, key=79, versions=(1, 1), flexible=0):
    """The outcome for each partition."""

    class LeaderIdAndEpoch(Message):
        leader_id: int32
        leader_epoch: int32

    class PartitionData(Message):
        partition_index: int32
        error_code: int16
        error_message: string | None = field(default=None)
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch

    class TopicResponse(Message):
        topic_id: uuid
        partitions: list[ShareAcknowledgeResponse.PartitionData]

    class NodeEndpoint(Message):
        node_id: int32
        host: string
        port: int32
        rack: string | None = field(default=None)

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = field(default=None)
    responses: list[TopicResponse]
    node_endpoints: list[NodeEndpoint]
