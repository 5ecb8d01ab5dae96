"""TxnOffsetCommit (api key 28).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string


class TxnOffsetCommitRequest(Message, key=28, versions=(0, 5), flexible=3):
    """Offsets that become visible when the transaction commits."""

    class Partition(Message):
        partition_index: int32
        committed_offset: int64
        committed_leader_epoch: int32 = field("2+", default=-1, ignorable=True)
        committed_metadata: string | None

    class Topic(Message):
        name: string
        partitions: list[TxnOffsetCommitRequest.Partition]

    transactional_id: string
    group_id: string
    producer_id: int64
    producer_epoch: int16
    generation_id: int32 = field("3+", default=-1)
    member_id: string = field("3+", default="")
    group_instance_id: string | None = field("3+", default=None)
    topics: list[Topic]


class TxnOffsetCommitResponse(Message, key=28, versions=(0, 5), flexible=3):
    """The outcome for each partition."""

    class Partition(Message):
        partition_index: int32
        error_code: int16

    class Topic(Message):
        name: string
        partitions: list[TxnOffsetCommitResponse.Partition]

    throttle_time_ms: int32
    topics: list[Topic]
