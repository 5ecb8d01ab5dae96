"""OffsetFetch (api key 9).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.schema import Message, field, int16, int32, int64, string, uuid


class OffsetFetchRequest(Message, key=9, versions=(1, 10), flexible=6):
    """Requests the committed offsets of groups."""

    class Topic(Message):
        name: string
        partition_indexes: list[int32]

    class Topics(Message):
        name: string = field("8-9", default="", ignorable=True)
        topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)
        partition_indexes: list[int32]

    class Group(Message):
        group_id: string
        member_id: string | None = field("9+", default=None, ignorable=True)
        member_epoch: int32 = field("9+", default=-1, ignorable=True)
        topics: list[OffsetFetchRequest.Topics] | None

    group_id: string = field("1-7", default="")
    topics: list[Topic] | None = field("1-7", nullable="2-7", default=[])
    groups: list[Group] = field("8+", default=[])
    require_stable: bool = field("7+", default=False)


class OffsetFetchResponse(Message, key=9, versions=(1, 10), flexible=6):
    """Committed offsets with epoch and metadata, by group and partition."""

    class Partition(Message):
        partition_index: int32
        committed_offset: int64
        committed_leader_epoch: int32 = field("5-7", default=-1, ignorable=True)
        metadata: string | None
        error_code: int16

    class Topic(Message):
        name: string
        partitions: list[OffsetFetchResponse.Partition]

    class Partitions(Message):
        partition_index: int32
        committed_offset: int64
        committed_leader_epoch: int32 = field(default=-1)
        metadata: string | None
        error_code: int16

    class Topics(Message):
        name: string = field("8-9", default="", ignorable=True)
        topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)
        partitions: list[OffsetFetchResponse.Partitions]

    class Group(Message):
        group_id: string
        topics: list[OffsetFetchResponse.Topics]
        error_code: int16 = field(default=0)

    throttle_time_ms: int32 = field("3+", default=0, ignorable=True)
    topics: list[Topic] = field("1-7", default=[])
    error_code: int16 = field("2-7", default=0, ignorable=True)
    groups: list[Group] = field("8+", default=[])
