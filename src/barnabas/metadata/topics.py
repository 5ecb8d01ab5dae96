"""Topics and partitions in the metadata: their state, and how change records alter it.

The decision to change a partition belongs in the controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from immutables import Map

from barnabas.base.ids import MIGRATING_DIR, Uuid
from barnabas.metadata.levels import DIRECTORIES_LEVEL
from barnabas.protocol.records.metadata import PartitionChangeRecord, PartitionRecord, TopicRecord

NO_LEADER = -1
LEADER_UNCHANGED = -2
RECOVERY_UNCHANGED = -1
RECOVERED, RECOVERING = 0, 1
# The partition epoch of a partition whose replicas were all dead since it was created (ZooKeeper mode): it
# has no leader and no ISR, and nothing of its state is stored.
NEVER_STORED = -1


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition.  Tuples keep the order of the lists in the records."""

    replicas: tuple[int, ...]
    directories: tuple[Uuid, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED

    @classmethod
    def of_record(cls, record: PartitionRecord) -> Partition:
        replicas = tuple(record.replicas)
        return cls(
            replicas=replicas,
            directories=_directories(record.directories, len(replicas)),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
            leader_recovery_state=record.leader_recovery_state,
        )

    def changed_by(self, record: PartitionChangeRecord) -> Partition:
        """Absent fields keep their value; a leader, even the same one, starts a new leader epoch."""
        new_leader_epoch = record.leader != LEADER_UNCHANGED
        replicas = _or(record.replicas, self.replicas)
        directories = self.directories if record.directories is None else tuple(record.directories)
        recovery = record.leader_recovery_state
        return Partition(
            replicas=replicas,
            directories=directories if len(directories) == len(replicas) else _directories((), len(replicas)),
            isr=_or(record.isr, self.isr),
            leader=record.leader if new_leader_epoch else self.leader,
            leader_epoch=self.leader_epoch + new_leader_epoch,
            partition_epoch=self.partition_epoch + 1,
            removing_replicas=_or(record.removing_replicas, self.removing_replicas),
            adding_replicas=_or(record.adding_replicas, self.adding_replicas),
            elr=_or(record.eligible_leader_replicas, self.elr),
            last_known_elr=_or(record.last_known_elr, self.last_known_elr),
            leader_recovery_state=self.leader_recovery_state if recovery == RECOVERY_UNCHANGED else recovery,
        )

    def without_elr(self) -> Partition:
        return replace(self, elr=(), last_known_elr=()) if self.elr or self.last_known_elr else self

    def to_record(self, topic_id: Uuid, partition_id: int, level: int) -> PartitionRecord:
        """The record at a level of metadata.version, which may be too old for directories (KIP-858).

        Empty optional lists are left null because they are tagged fields.
        """
        return PartitionRecord(
            partition_id=partition_id,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing_replicas),
            adding_replicas=list(self.adding_replicas),
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories) if level >= DIRECTORIES_LEVEL else [],
            eligible_leader_replicas=list(self.elr) or None,
            last_known_elr=list(self.last_known_elr) or None,
        )

    def directory_of(self, broker_id: int) -> Uuid:
        """The directory of this broker's replica, as the controller knows it; KeyError if there is none."""
        for replica, directory in zip(self.replicas, self.directories, strict=True):
            if replica == broker_id:
                return directory
        raise KeyError(broker_id)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic; its partitions are numbered consecutively from 0."""

    name: str
    id: Uuid
    partitions: Map[int, Partition]

    @classmethod
    def of_record(cls, record: TopicRecord) -> Topic:
        return cls(record.name, record.topic_id, Map())

    def with_partition(self, number: int, partition: Partition) -> Topic:
        return Topic(self.name, self.id, self.partitions.set(number, partition))


def _or(changed: Sequence[int] | None, current: tuple[int, ...]) -> tuple[int, ...]:
    return current if changed is None else tuple(changed)


def _directories(directories: Sequence[Uuid], count: int) -> tuple[Uuid, ...]:
    """Records from before KIP-858 contain no directories: they count as migrating."""
    return tuple(directories) if directories else (MIGRATING_DIR,) * count
