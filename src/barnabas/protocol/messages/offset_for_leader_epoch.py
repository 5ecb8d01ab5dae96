"""OffsetForLeaderEpoch (api key 23).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string


class OffsetForLeaderEpochRequest(Message, key=23, versions=(2, 4), flexible=4):
    """Requests the end offsets of leader epochs."""

    class OffsetForLeaderPartition(Message):
        partition: int32
        current_leader_epoch: int32 = field(default=-1)
        leader_epoch: int32

    class OffsetForLeaderTopic(Message):
        topic: string
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition]

    replica_id: int32 = field("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic]


class OffsetForLeaderEpochResponse(Message, key=23, versions=(2, 4), flexible=4):
    """The end offset of each epoch, to find where logs diverge."""

    class EpochEndOffset(Message):
        error_code: int16
        partition: int32
        leader_epoch: int32 = field(default=-1)
        end_offset: int64 = field(default=-1)

    class OffsetForLeaderTopicResult(Message):
        topic: string
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset]

    throttle_time_ms: int32
    topics: list[OffsetForLeaderTopicResult]
