"""Brokers whose registration is a session: what follows when they appear and vanish (ZooKeeper mode).

There are no heartbeats: a registered broker is alive, and one that is not registered is dead.  The caller
applies the records of one decision before it asks for the next.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from barnabas.base.ids import LOST_DIR, MIGRATING_DIR, Uuid
from barnabas.controller.replication.elections import leader_and_isr_updates
from barnabas.controller.state import ControllerState
from barnabas.controller.topics.assignments import new_partition
from barnabas.metadata.levels import DIRECTORIES_LEVEL
from barnabas.metadata.topics import NEVER_STORED, NO_LEADER
from barnabas.protocol.records.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from barnabas.protocol.schema import Message

FENCED = 1


def mark_dead(state: ControllerState, broker_ids: Iterable[int]) -> list[Message]:
    """Before anything else is decided: none of them may be elected."""
    brokers = (state.image.brokers.get(broker_id) for broker_id in broker_ids)
    return [
        BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=FENCED)
        for broker in brokers
        if broker is not None
    ]


def leave_partitions(state: ControllerState, broker_id: int, deleted: Container[str]) -> list[Message]:
    """A dead broker loses its leaderships, then it leaves the other ISRs."""
    entries = [entry for entry in state.in_isr(broker_id) if entry[0].name not in deleted]
    entries.sort(key=lambda entry: entry[2].leader != broker_id)
    return leader_and_isr_updates(state, entries, broker_to_remove=broker_id)


def unregister(state: ControllerState, broker_ids: Iterable[int]) -> list[Message]:
    brokers = (state.image.brokers.get(broker_id) for broker_id in broker_ids)
    return [
        UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
        for broker in brokers
        if broker is not None
    ]


def leave_all_dead(state: ControllerState, deleted: Container[str]) -> list[Message]:
    """The first step of a new controller: dead brokers lead nothing and are in no ISR.

    Elections are a step of their own.  An ISR of dead brokers only stays as it is.
    """
    records: list[Message] = []
    brokers = state.image.brokers
    for topic, number, partition in state.partitions():
        if topic.name in deleted or partition.partition_epoch == NEVER_STORED:
            continue
        isr = [replica for replica in partition.isr if replica in brokers] or list(partition.isr)
        leader = partition.leader if partition.leader in brokers else NO_LEADER
        if leader != partition.leader or tuple(isr) != partition.isr:
            record = PartitionChangeRecord(partition_id=number, topic_id=topic.id, leader=leader)
            if tuple(isr) != partition.isr:
                record.isr = isr
            records.append(record)
    return records


def elect_leaderless(state: ControllerState, deleted: Container[str]) -> list[Message]:
    """Elect leaders where there are none, with an unclean election where the topic allows it."""
    entries = [entry for entry in state.leaderless() if entry[0].name not in deleted]
    stored = [entry for entry in entries if entry[2].partition_epoch != NEVER_STORED]
    records: list[Message] = []
    for topic, number, partition in entries:
        if partition.partition_epoch == NEVER_STORED:
            first = new_partition(state, partition.replicas)
            if first is not None:
                records.append(first.to_record(topic.id, number, state.image.metadata_version))
    return [*records, *leader_and_isr_updates(state, stored)]


# Replicas in failed directories


def mark_replicas(
    state: ControllerState, broker_id: int, keys: Iterable[tuple[Uuid, int]], *, lost: bool
) -> list[Message]:
    """Whether replicas of this broker are in a directory that has failed; nothing of this is stored."""
    directory = LOST_DIR if lost else MIGRATING_DIR
    records: list[Message] = []
    for topic_id, number in keys:
        partition = state.image.partition(topic_id, number)
        if partition is None or broker_id not in partition.replicas:
            continue
        if (partition.directory_of(broker_id) == LOST_DIR) is not lost:
            directories = (
                directory if replica == broker_id else known
                for replica, known in zip(partition.replicas, partition.directories, strict=True)
            )
            marked = replace(partition, directories=tuple(directories))
            records.append(marked.to_record(topic_id, number, DIRECTORIES_LEVEL))
    return records


def lost_replicas(state: ControllerState, broker_id: int) -> list[tuple[Uuid, int]]:
    return [
        (topic.id, number)
        for topic, number, partition in state.in_directory(LOST_DIR)
        if broker_id in partition.replicas and partition.directory_of(broker_id) == LOST_DIR
    ]


def leave_lost(
    state: ControllerState, broker_id: int, keys: Sequence[tuple[Uuid, int]], deleted: Container[str]
) -> list[Message]:
    """Replicas of this broker that are lost leave the ISRs of these partitions."""
    wanted = set(keys)
    entries = [
        entry
        for entry in state.in_isr(broker_id)
        if (entry[0].id, entry[1]) in wanted and entry[0].name not in deleted
    ]
    return leader_and_isr_updates(state, entries, broker_to_remove=broker_id)
