"""Builds the change record of one partition: ISR, leader, ELR, replicas and directories.

The rules are those of Apache Kafka's PartitionChangeBuilder (KIP-455, KIP-704, KIP-858, KIP-966).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from barnabas.base.ids import Uuid
from barnabas.base.java_order import order_by_hash
from barnabas.controller.replication.reassignment import completed
from barnabas.controller.state import ControllerState
from barnabas.metadata.levels import DIRECTORIES_LEVEL, ISR_SHRINK_KEEPS_EPOCH_LEVEL
from barnabas.metadata.topics import (
    LEADER_UNCHANGED,
    NO_LEADER,
    RECOVERING,
    RECOVERY_UNCHANGED,
    Partition,
    Topic,
)
from barnabas.protocol.records.metadata import PartitionChangeRecord


class Election(Enum):
    """Which replica may become the leader."""

    PREFERRED = "the first replica, if it is in sync"
    ONLINE = "an in-sync replica"
    UNCLEAN = "any live replica, if none is in sync"


@dataclass(slots=True)
class PartitionChange:
    """A change under construction: the target state, initialized from the current one."""

    state: ControllerState
    topic: Topic
    number: int
    partition: Partition
    election: Election = Election.ONLINE
    is_acceptable_leader: Callable[[int], bool] | None = None
    unclean_shutdown: int | None = None
    # A reassignment is asked for: the leader learns of it by a new epoch, even of the same one again.
    is_reassigned: bool = False
    # The leader itself proposes the ISR.
    by_leader: bool = False
    # That of the topic, if the caller has looked it up.
    min_isr: int | None = None
    isr: list[int] = field(init=False)
    replicas: list[int] = field(init=False)
    removing: list[int] = field(init=False)
    adding: list[int] = field(init=False)
    elr: list[int] = field(init=False)
    recovery_state: int = field(init=False)
    # Replicas that are in another directory from now on.
    directories: dict[int, Uuid] = field(init=False)
    elr_enabled: bool = field(init=False)

    def __post_init__(self) -> None:
        current = self.partition
        self.isr = list(current.isr)
        self.replicas = list(current.replicas)
        self.removing = list(current.removing_replicas)
        self.adding = list(current.adding_replicas)
        self.elr = list(current.elr)
        self.recovery_state = current.leader_recovery_state
        self.directories = {}
        self.elr_enabled = self.state.elr_enabled

    def build(self) -> PartitionChangeRecord | None:
        """Returns the record; None if nothing changes."""
        record = PartitionChangeRecord(partition_id=self.number, topic_id=self.topic.id)
        completion = completed(self.replicas, self.isr, self.removing, self.adding)
        if completion is not None and self.state.options.policy.reassigns_in_one_step:
            self.replicas, self.isr = completion
            self.removing, self.adding = [], []
        self._update_elr()
        self._elect(record)
        if record.leader == LEADER_UNCHANGED and not set(self.partition.replicas) <= set(self.replicas):
            # The new epoch keeps the leader from treating the removed replica as an ISR member.
            record.leader = self.partition.leader
        self._set_elr(record)
        if record.isr is None and (self.isr or self.elr_enabled) and tuple(self.isr) != self.partition.isr:
            record.isr = self.isr
        self._bump_epoch_for_shrink(record)
        self._set_last_known_leader(record)
        self._set_assignment(record)
        self._bump_epoch_for_assignment(record)
        if self.recovery_state != self.partition.leader_recovery_state:
            record.leader_recovery_state = self.recovery_state
        return None if _is_no_op(record) else record

    # Leader election

    def _is_acceptable(self, replica: int) -> bool:
        is_acceptable_leader = self.is_acceptable_leader or self.state.is_active
        partition = self.partition
        if replica not in partition.replicas or not is_acceptable_leader(replica):
            return False  # A replica that this change adds has no records yet.
        return self.state.has_online_directory(replica, partition.directory_of(replica))

    def _is_valid_leader(self, replica: int) -> bool:
        member = replica in self.isr or (not self.isr and replica in self.elr)
        return member and self._is_acceptable(replica)

    def _choose_leader(self) -> tuple[int, bool]:
        """Returns the new leader, or NO_LEADER, and whether the election is unclean."""
        order = [self.partition.leader, *self.replicas]
        if self.election is Election.PREFERRED:
            order = [self.replicas[0], *order]
        for replica in order:
            if self._is_valid_leader(replica):
                return replica, False
        if self._can_elect_last_known_leader():
            return self.partition.last_known_elr[0], True
        if self.election is Election.UNCLEAN:
            for replica in self.replicas:
                if self._is_acceptable(replica):
                    return replica, True
        return NO_LEADER, False

    def _can_elect_last_known_leader(self) -> bool:
        """The last known leader may be elected if no other replica is eligible (KIP-966)."""
        if not self.elr_enabled or self.elr or self.isr or len(self.partition.last_known_elr) != 1:
            return False
        return self._is_acceptable(self.partition.last_known_elr[0])

    def _elect(self, record: PartitionChangeRecord) -> None:
        leader, unclean = self._choose_leader()
        if leader == self.partition.leader:
            return
        if leader in self.elr:
            self.isr = [leader]
            self.elr = [replica for replica in self.elr if replica != leader]
        record.leader = leader
        if unclean:
            record.isr = [leader]
            if self.partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING

    # Eligible leader replicas (KIP-966)

    def _update_elr(self) -> None:
        """A replica that leaves an ISR below min.insync.replicas stays eligible, unless it crashed.

        In the order of Apache Kafka's set.
        """
        if not self.elr_enabled:
            return
        min_isr = self.state.min_isr(self.topic) if self.min_isr is None else self.min_isr
        if len(self.isr) >= min_isr:
            self.elr = []
            return
        candidates = {*self.elr, *self.partition.isr} - set(self.isr) - {self.unclean_shutdown}
        # A removed replica deletes its log: Apache Kafka 4.1 keeps it eligible, and would elect it without
        # records if it were added again.
        assigned = candidates & set(self.partition.replicas) & set(self.replicas)
        self.elr = order_by_hash(sorted(assigned), int)

    def _set_elr(self, record: PartitionChangeRecord) -> None:
        if record.isr is not None or not self.elr_enabled:
            self.elr = []
        if tuple(self.elr) != self.partition.elr:
            record.eligible_leader_replicas = self.elr

    def _set_last_known_leader(self, record: PartitionChangeRecord) -> None:
        if not self.elr_enabled:
            return
        current = self.partition
        if record.isr is not None and not record.isr and current.last_known_elr != (current.leader,):
            record.last_known_elr = [current.leader]
        elif current.last_known_elr and (
            record.leader >= 0 or (current.leader != NO_LEADER and record.leader != NO_LEADER)
        ):
            record.last_known_elr = []

    # Epoch and assignment

    def _bump_epoch_for_shrink(self, record: PartitionChangeRecord) -> None:
        if self.state.image.metadata_version >= ISR_SHRINK_KEEPS_EPOCH_LEVEL or record.isr is None:
            return
        if self.by_leader and self.state.options.policy.leaders_shrink_within_epoch:
            return
        if record.leader == LEADER_UNCHANGED and not set(self.partition.isr) <= set(record.isr):
            record.leader = self.partition.leader

    def _bump_epoch_for_assignment(self, record: PartitionChangeRecord) -> None:
        """A step of a reassignment shows in the leader epoch, not only in the assignment."""
        if self.state.options.policy.reassigns_in_one_step or record.leader != LEADER_UNCHANGED:
            return
        assigned = (record.replicas, record.adding_replicas, record.removing_replicas)
        is_again = self.is_reassigned and bool(self.removing or self.adding)
        if is_again or any(changed is not None for changed in assigned):
            record.leader = self.partition.leader

    def _set_assignment(self, record: PartitionChangeRecord) -> None:
        current = self.partition
        has_other_replicas = tuple(self.replicas) != current.replicas
        if self.replicas and (has_other_replicas or self.directories):
            if self.state.image.metadata_version >= DIRECTORIES_LEVEL:
                known = dict(zip(current.replicas, current.directories, strict=True)) | self.directories
                directories = [
                    known.get(replica) or self.state.default_directory(replica) for replica in self.replicas
                ]
                if tuple(directories) != current.directories:
                    record.directories = directories
            if has_other_replicas:
                record.replicas = self.replicas
        if tuple(self.removing) != current.removing_replicas:
            record.removing_replicas = self.removing
        if tuple(self.adding) != current.adding_replicas:
            record.adding_replicas = self.adding


def _is_no_op(record: PartitionChangeRecord) -> bool:
    lists: Sequence[object] = (
        record.isr,
        record.replicas,
        record.removing_replicas,
        record.adding_replicas,
        record.directories,
        record.eligible_leader_replicas,
        record.last_known_elr,
    )
    return (
        all(changed is None for changed in lists)
        and record.leader == LEADER_UNCHANGED
        and record.leader_recovery_state == RECOVERY_UNCHANGED
    )
