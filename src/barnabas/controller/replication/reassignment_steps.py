"""The last steps of a reassignment where each is stored on its own (ZooKeeper mode).

The caller applies the records of one step before it asks for the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from barnabas.controller.replication.reassignment import completed, in_progress
from barnabas.controller.state import ControllerState
from barnabas.metadata.levels import DIRECTORIES_LEVEL
from barnabas.metadata.topics import Partition, Topic
from barnabas.protocol.records.metadata import PartitionChangeRecord
from barnabas.protocol.schema import Message


def is_complete(partition: Partition) -> bool:
    """Whether all target replicas are in sync and the reassignment has only to be ended."""
    return _final(partition) is not None


def _final(partition: Partition) -> tuple[list[int], list[int]] | None:
    return completed(
        partition.replicas, partition.isr, partition.removing_replicas, partition.adding_replicas
    )


def reassigning(state: ControllerState) -> Iterator[tuple[Topic, int, Partition]]:
    return (entry for entry in state.partitions() if in_progress(entry[2]))


def move_leader(state: ControllerState, topic: Topic, number: int) -> list[Message]:
    """A target replica leads from now on, in a new epoch: the same one if it is one already."""
    partition = state.image.topics[topic.id].partitions[number]
    final = _final(partition)
    if final is None:
        return []
    candidates = [partition.leader, *final[0]]
    leader = next((id_ for id_ in candidates if id_ in final[0] and state.is_active(id_)), None)
    if leader is None:
        return []
    return [PartitionChangeRecord(partition_id=number, topic_id=topic.id, leader=leader)]


def remove_old_replicas(state: ControllerState, topic: Topic, number: int) -> list[Message]:
    """The other replicas leave the ISR and the assignment."""
    partition = state.image.topics[topic.id].partitions[number]
    final = _final(partition)
    if final is None or partition.leader not in final[0]:
        return []
    replicas, isr = final
    if tuple(isr) == partition.isr:
        # Only the assignment changes.
        ended = replace(
            partition,
            replicas=tuple(replicas),
            directories=tuple(partition.directory_of(replica) for replica in replicas),
            adding_replicas=(),
            removing_replicas=(),
        )
        return [ended.to_record(topic.id, number, DIRECTORIES_LEVEL)]
    return [
        PartitionChangeRecord(
            partition_id=number,
            topic_id=topic.id,
            leader=partition.leader,
            isr=isr,
            replicas=replicas,
            adding_replicas=[],
            removing_replicas=[],
        )
    ]
