"""ShareFetch (api key 78).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, int64, record_data, string, uuid


class ShareFetchRequest(Message, key=78, versions=(1, 1), flexible=0):
    """A member of a share group fetches records, and acknowledges earlier ones."""

    class AcknowledgementBatch(Message):
        first_offset: int64
        last_offset: int64
        acknowledge_types: list[int8]

    class FetchPartition(Message):
        partition_index: int32
        partition_max_bytes: int32 = field("1-0", default=0)
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch]

    class FetchTopic(Message):
        topic_id: uuid
        partitions: list[ShareFetchRequest.FetchPartition]

    class ForgottenTopic(Message):
        topic_id: uuid
        partitions: list[int32]

    group_id: string | None = field(default=None)
    member_id: string | None
    share_session_epoch: int32
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = field(default=2147483647)
    max_records: int32
    batch_size: int32
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


class ShareFetchResponse(Message, key=78, versions=(1, 1), flexible=0):
    """Records, and which of them were acquired for this member."""

    class LeaderIdAndEpoch(Message):
        leader_id: int32
        leader_epoch: int32

    class AcquiredRecords(Message):
        first_offset: int64
        last_offset: int64
        delivery_count: int16

    class PartitionData(Message):
        partition_index: int32
        error_code: int16
        error_message: string | None = field(default=None)
        acknowledge_error_code: int16
        acknowledge_error_message: string | None = field(default=None)
        current_leader: ShareFetchResponse.LeaderIdAndEpoch
        records: record_data
        acquired_records: list[ShareFetchResponse.AcquiredRecords]

    class ShareFetchableTopicResponse(Message):
        topic_id: uuid
        partitions: list[ShareFetchResponse.PartitionData]

    class NodeEndpoint(Message):
        node_id: int32
        host: string
        port: int32
        rack: string | None = field(default=None)

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = field(default=None)
    acquisition_lock_timeout_ms: int32
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]
