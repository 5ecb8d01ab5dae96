"""The offset bounds of one partition, for a task that missed it."""

from __future__ import annotations

from barnabas.base.ids import CONSUMER_REPLICA
from barnabas.client.cluster import Cluster
from barnabas.client.errors.base import check
from barnabas.client.model import TopicPartition
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.spark.source.offsets import EARLIEST, LATEST


async def bounds_of(
    cluster: Cluster, topic_partition: TopicPartition, *, committed_only: bool
) -> tuple[int, int]:
    """Return the log start offset and the end of what can be read."""
    leader = (await cluster.leaders([topic_partition])).get(topic_partition)
    if leader is None:
        raise cluster.leaderless(topic_partition)
    connection = await cluster.connection_to(leader.leader)
    offsets = []
    for time in (EARLIEST, LATEST):
        request = ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA,
            isolation_level=1 if committed_only else 0,
            topics=[
                ListOffsetsRequest.Topic(
                    name=topic_partition.topic,
                    partitions=[
                        ListOffsetsRequest.Partition(
                            partition_index=topic_partition.partition, timestamp=time
                        )
                    ],
                )
            ],
        )
        partition = (await connection.send(request, ListOffsetsResponse)).topics[0].partitions[0]
        check(partition.error_code)
        offsets.append(partition.offset)
    return offsets[0], offsets[1]
