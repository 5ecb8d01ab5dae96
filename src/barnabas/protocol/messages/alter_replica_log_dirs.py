"""AlterReplicaLogDirs (api key 34).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int16, int32, string


class AlterReplicaLogDirsRequest(Message, key=34, versions=(1, 2), flexible=2):
    """Replicas to move to another log directory of the same broker."""

    class AlterReplicaLogDirTopic(Message):
        name: string
        partitions: list[int32]

    class AlterReplicaLogDir(Message):
        path: string
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic]

    dirs: list[AlterReplicaLogDir]


class AlterReplicaLogDirsResponse(Message, key=34, versions=(1, 2), flexible=2):
    """The outcome for each replica."""

    class AlterReplicaLogDirPartitionResult(Message):
        partition_index: int32
        error_code: int16

    class AlterReplicaLogDirTopicResult(Message):
        topic_name: string
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult]

    throttle_time_ms: int32
    results: list[AlterReplicaLogDirTopicResult]
