"""Records about segments in remote storage (KIP-405).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int32, int64, string, uuid


class RemoteLogSegmentMetadataRecord(Message, key=0, versions=(0, 0), flexible=0):
    """A segment is being copied to remote storage, or was."""

    class TopicIdPartitionEntry(Message):
        name: string
        id: uuid
        partition: int32

    class RemoteLogSegmentIdEntry(Message):
        topic_id_partition: RemoteLogSegmentMetadataRecord.TopicIdPartitionEntry
        id: uuid

    class SegmentLeaderEpochEntry(Message):
        leader_epoch: int32
        offset: int64

    remote_log_segment_id: RemoteLogSegmentIdEntry
    start_offset: int64
    end_offset: int64
    broker_id: int32
    max_timestamp_ms: int64
    event_timestamp_ms: int64
    segment_leader_epochs: list[SegmentLeaderEpochEntry]
    segment_size_in_bytes: int32
    custom_metadata: bytes | None = field(default=None)
    remote_log_segment_state: int8
    txn_index_empty: bool = field(tag=0, default=False)


class RemoteLogSegmentMetadataSnapshotRecord(Message, key=3, versions=(0, 0), flexible=0):
    """The state of a remote segment in a snapshot."""

    class SegmentLeaderEpochEntry(Message):
        leader_epoch: int32
        offset: int64

    segment_id: uuid
    start_offset: int64
    end_offset: int64
    broker_id: int32
    max_timestamp_ms: int64
    event_timestamp_ms: int64
    segment_leader_epochs: list[SegmentLeaderEpochEntry]
    segment_size_in_bytes: int32
    custom_metadata: bytes | None = field(default=None)
    remote_log_segment_state: int8
    txn_index_empty: bool = field(tag=0, default=False)


class RemoteLogSegmentMetadataUpdateRecord(Message, key=1, versions=(0, 0), flexible=0):
    """A remote segment changed its state."""

    class TopicIdPartitionEntry(Message):
        name: string
        id: uuid
        partition: int32

    class RemoteLogSegmentIdEntry(Message):
        topic_id_partition: RemoteLogSegmentMetadataUpdateRecord.TopicIdPartitionEntry
        id: uuid

    remote_log_segment_id: RemoteLogSegmentIdEntry
    broker_id: int32
    event_timestamp_ms: int64
    custom_metadata: bytes | None = field(default=None)
    remote_log_segment_state: int8


class RemotePartitionDeleteMetadataRecord(Message, key=2, versions=(0, 0), flexible=0):
    """The deletion of a partition's remote segments."""

    class TopicIdPartitionEntry(Message):
        name: string
        id: uuid
        partition: int32

    topic_id_partition: TopicIdPartitionEntry
    broker_id: int32
    event_timestamp_ms: int64
    remote_partition_delete_state: int8
