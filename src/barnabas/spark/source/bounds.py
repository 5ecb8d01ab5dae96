"""Where one partition begins and ends, asked by a task that missed it."""

from __future__ import annotations

from barnabas.base.ids import CONSUMER_REPLICA
from barnabas.client.cluster import Cluster
from barnabas.client.errors.base import check
from barnabas.client.model import TopicPartition
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.spark.source.offsets import EARLIEST, LATEST


async def bounds_of(cluster: Cluster, where: TopicPartition, *, committed_only: bool) -> tuple[int, int]:
    """Its first offset and the one after its last that can be read."""
    leader = (await cluster.leaders([where])).get(where)
    if leader is None:
        raise cluster.leaderless(where)
    connection = await cluster.connection_to(leader.leader)
    found = []
    for time in (EARLIEST, LATEST):
        request = ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA,
            isolation_level=1 if committed_only else 0,
            topics=[
                ListOffsetsRequest.Topic(
                    name=where.topic,
                    partitions=[
                        ListOffsetsRequest.Partition(partition_index=where.partition, timestamp=time)
                    ],
                )
            ],
        )
        told = (await connection.send(request, ListOffsetsResponse)).topics[0].partitions[0]
        check(told.error_code)
        found.append(told.offset)
    return found[0], found[1]
