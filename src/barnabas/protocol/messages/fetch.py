"""Fetch (api key 1).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.schema import NEW, Message, field, int8, int16, int32, int64, record_data, string, uuid


class FetchRequest(Message, key=1, versions=(4, 18), flexible=12):
    """Partitions to read from, by consumers, followers and the metadata quorum."""

    class ReplicaState(Message):
        replica_id: int32 = field(default=-1)
        replica_epoch: int64 = field(default=-1)

    class Partition(Message):
        partition: int32
        current_leader_epoch: int32 = field("9+", default=-1, ignorable=True)
        fetch_offset: int64
        last_fetched_epoch: int32 = field("12+", default=-1)
        log_start_offset: int64 = field("5+", default=-1, ignorable=True)
        partition_max_bytes: int32
        replica_directory_id: uuid = field("17+", tag=0, default=ZERO_UUID, ignorable=True)
        high_watermark: int64 = field("18+", tag=1, default=9223372036854775807, ignorable=True)

    class Topic(Message):
        topic: string = field("4-12", default="", ignorable=True)
        topic_id: uuid = field("13+", default=ZERO_UUID, ignorable=True)
        partitions: list[FetchRequest.Partition]

    class ForgottenTopic(Message):
        topic: string = field("7-12", default="", ignorable=True)
        topic_id: uuid = field("13+", default=ZERO_UUID, ignorable=True)
        partitions: list[int32]

    cluster_id: string | None = field("12+", tag=0, default=None, ignorable=True)
    replica_id: int32 = field("4-14", default=-1)
    replica_state: ReplicaState = field("15+", tag=1, default=NEW)
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = field(default=2147483647)
    isolation_level: int8 = field(default=0)
    session_id: int32 = field("7+", default=0, ignorable=True)
    session_epoch: int32 = field("7+", default=-1, ignorable=True)
    topics: list[Topic]
    forgotten_topics_data: list[ForgottenTopic] = field("7+", default=[])
    rack_id: string = field("11+", default="", ignorable=True)


class FetchResponse(Message, key=1, versions=(4, 18), flexible=12):
    """Record batches and watermarks of each partition."""

    class EpochEndOffset(Message):
        epoch: int32 = field(default=-1)
        end_offset: int64 = field(default=-1)

    class LeaderIdAndEpoch(Message):
        leader_id: int32 = field(default=-1)
        leader_epoch: int32 = field(default=-1)

    class SnapshotId(Message):
        end_offset: int64 = field(default=-1)
        epoch: int32 = field(default=-1)

    class AbortedTransaction(Message):
        producer_id: int64
        first_offset: int64

    class PartitionData(Message):
        partition_index: int32
        error_code: int16
        high_watermark: int64
        last_stable_offset: int64 = field(default=-1)
        log_start_offset: int64 = field("5+", default=-1, ignorable=True)
        diverging_epoch: FetchResponse.EpochEndOffset = field("12+", tag=0, default=NEW)
        current_leader: FetchResponse.LeaderIdAndEpoch = field("12+", tag=1, default=NEW)
        snapshot_id: FetchResponse.SnapshotId = field("12+", tag=2, default=NEW)
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None
        preferred_read_replica: int32 = field("11+", default=-1)
        records: record_data | None

    class FetchableTopicResponse(Message):
        topic: string = field("4-12", default="", ignorable=True)
        topic_id: uuid = field("13+", default=ZERO_UUID, ignorable=True)
        partitions: list[FetchResponse.PartitionData]

    class NodeEndpoint(Message):
        node_id: int32
        host: string
        port: int32
        rack: string | None = field(default=None)

    throttle_time_ms: int32
    error_code: int16 = field("7+", default=0, ignorable=True)
    session_id: int32 = field("7+", default=0)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0, default=[])
