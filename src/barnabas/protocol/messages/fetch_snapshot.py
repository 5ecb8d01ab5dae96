"""FetchSnapshot (api key 59).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.schema import (
    NEW,
    Message,
    field,
    int16,
    int32,
    int64,
    record_data,
    string,
    uint16,
    uuid,
)


class FetchSnapshotRequest(Message, key=59, versions=(0, 1), flexible=0):
    """A part of a snapshot of the metadata log."""

    class SnapshotId(Message):
        end_offset: int64
        epoch: int32

    class PartitionSnapshot(Message):
        partition: int32
        current_leader_epoch: int32
        snapshot_id: FetchSnapshotRequest.SnapshotId
        position: int64
        replica_directory_id: uuid = field("1+", tag=0, default=ZERO_UUID, ignorable=True)

    class TopicSnapshot(Message):
        name: string
        partitions: list[FetchSnapshotRequest.PartitionSnapshot]

    cluster_id: string | None = field(tag=0, default=None)
    replica_id: int32 = field(default=-1)
    max_bytes: int32 = field(default=2147483647)
    topics: list[TopicSnapshot]


class FetchSnapshotResponse(Message, key=59, versions=(0, 1), flexible=0):
    """Bytes of the snapshot from the requested position."""

    class SnapshotId(Message):
        end_offset: int64
        epoch: int32

    class LeaderIdAndEpoch(Message):
        leader_id: int32
        leader_epoch: int32

    class PartitionSnapshot(Message):
        index: int32
        error_code: int16
        snapshot_id: FetchSnapshotResponse.SnapshotId
        current_leader: FetchSnapshotResponse.LeaderIdAndEpoch = field(tag=0, default=NEW)
        size: int64
        position: int64
        unaligned_records: record_data

    class TopicSnapshot(Message):
        name: string
        partitions: list[FetchSnapshotResponse.PartitionSnapshot]

    class NodeEndpoint(Message):
        node_id: int32
        host: string
        port: uint16

    throttle_time_ms: int32
    error_code: int16
    topics: list[TopicSnapshot]
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, default=[])
