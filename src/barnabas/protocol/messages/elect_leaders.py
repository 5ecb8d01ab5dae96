"""ElectLeaders (api key 43).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, string


class ElectLeadersRequest(Message, key=43, versions=(0, 2), flexible=2):
    """Partitions for which to elect the preferred or, uncleanly, any replica."""

    class TopicPartitions(Message):
        topic: string
        partitions: list[int32]

    election_type: int8 = field("1+", default=0)
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: int32 = field(default=60000)


class ElectLeadersResponse(Message, key=43, versions=(0, 2), flexible=2):
    """The outcome for each partition."""

    class PartitionResult(Message):
        partition_id: int32
        error_code: int16
        error_message: string | None

    class ReplicaElectionResult(Message):
        topic: string
        partition_result: list[ElectLeadersResponse.PartitionResult]

    throttle_time_ms: int32
    error_code: int16 = field("1+", default=0)
    replica_election_results: list[ReplicaElectionResult]
