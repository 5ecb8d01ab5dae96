"""OffsetCommit (api key 8).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.schema import Message, field, int16, int32, int64, string, uuid


class OffsetCommitRequest(Message, key=8, versions=(2, 10), flexible=8):
    """A member commits its offsets."""

    class Partition(Message):
        partition_index: int32
        committed_offset: int64
        committed_leader_epoch: int32 = field("6+", default=-1, ignorable=True)
        committed_metadata: string | None

    class Topic(Message):
        name: string = field("2-9", default="", ignorable=True)
        topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)
        partitions: list[OffsetCommitRequest.Partition]

    group_id: string
    generation_id_or_member_epoch: int32 = field(default=-1)
    member_id: string
    group_instance_id: string | None = field("7+", default=None)
    retention_time_ms: int64 = field("2-4", default=-1, ignorable=True)
    topics: list[Topic]


class OffsetCommitResponse(Message, key=8, versions=(2, 10), flexible=8):
    """The outcome for each partition."""

    class Partition(Message):
        partition_index: int32
        error_code: int16

    class Topic(Message):
        name: string = field("2-9", default="", ignorable=True)
        topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)
        partitions: list[OffsetCommitResponse.Partition]

    throttle_time_ms: int32 = field("3+", default=0, ignorable=True)
    topics: list[Topic]
