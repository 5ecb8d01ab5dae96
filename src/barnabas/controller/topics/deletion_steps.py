"""The deletion of a topic where each step is stored on its own (ZooKeeper mode).

Replica by replica leaves the ISRs, so that nobody leads the partitions; then the brokers delete their
replicas; when all have done so, the topic is removed.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.controller.state import ControllerState
from barnabas.metadata.topics import NEVER_STORED, NO_LEADER
from barnabas.protocol.records.metadata import PartitionChangeRecord, RemoveTopicRecord
from barnabas.protocol.schema import Message


def take_offline(state: ControllerState, names: Iterable[str], replica: int) -> list[Message]:
    """The replica on this broker leaves the ISRs of these topics; the last one stays in its own."""
    records: list[Message] = []
    for name in names:
        topic = state.image.topic_named(name)
        if topic is None:
            continue
        for number, partition in sorted(topic.partitions.items()):
            if replica not in partition.isr or partition.partition_epoch == NEVER_STORED:
                continue
            isr = [member for member in partition.isr if member != replica]
            is_led_by_other = partition.leader not in (replica, NO_LEADER)
            record = PartitionChangeRecord(
                partition_id=number,
                topic_id=topic.id,
                leader=partition.leader if is_led_by_other else NO_LEADER,
            )
            if isr:
                record.isr = isr
            records.append(record)
    return records


def remove(state: ControllerState, name: str) -> list[Message]:
    topic = state.image.topic_named(name)
    return [] if topic is None else [RemoveTopicRecord(topic_id=topic.id)]
