"""DescribeLogDirs (api key 35).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string


class DescribeLogDirsRequest(Message, key=35, versions=(1, 4), flexible=2):
    """Partitions to describe; null means all."""

    class DescribableLogDirTopic(Message):
        topic: string
        partitions: list[int32]

    topics: list[DescribableLogDirTopic] | None


class DescribeLogDirsResponse(Message, key=35, versions=(1, 4), flexible=2):
    """The log directories with their sizes and replicas."""

    class Partition(Message):
        partition_index: int32
        partition_size: int64
        offset_lag: int64
        is_future_key: bool

    class Topic(Message):
        name: string
        partitions: list[DescribeLogDirsResponse.Partition]

    class Result(Message):
        error_code: int16
        log_dir: string
        topics: list[DescribeLogDirsResponse.Topic]
        total_bytes: int64 = field("4+", default=-1, ignorable=True)
        usable_bytes: int64 = field("4+", default=-1, ignorable=True)

    throttle_time_ms: int32
    error_code: int16 = field("3+", default=0, ignorable=True)
    results: list[Result]
