"""The controller's storage interface: the metadata log in KRaft mode, znodes in ZooKeeper mode.

Leadership is won with an epoch, after everything that earlier leaders committed has been reported, and is
lost with the same epoch.  In between, only this controller appends.  Records that were appended but not
reported as committed when leadership is lost may still be committed; they are then reported like any others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from barnabas.metadata.loader import MetadataBatch
from barnabas.protocol.schema import Message


@dataclass(frozen=True, slots=True)
class StorePolicy:
    """What a store demands of decisions.  The defaults are those of the metadata log."""

    # A reassignment ends with the ISR change that completes it; else in steps of its own afterwards.
    reassigns_in_one_step: bool = True
    # A leader that shrinks its ISR keeps its epoch at every level of metadata.version.
    leaders_shrink_within_epoch: bool = False
    # A request may alter credentials of one user for several mechanisms.
    alters_mechanisms_together: bool = False
    # Mutations that a request only has validated count for the client's quota, too.
    counts_validated_mutations: bool = True
    # What is said when there are fewer brokers than replicas.
    too_few_brokers: str = (
        "The target replication factor of {wanted} cannot be reached because only {present} broker(s) are"
        " registered."
    )
    # What is said of names that differ in . and _ only, and of numbers of partitions that are no growth.
    colliding_topic: str = "Topic '{name}' collides with existing topic: {other}"
    fewer_partitions: str = (
        "The topic {name} currently has {present} partition(s); {wanted} would not be an increase."
    )
    as_many_partitions: str = "Topic already has {present} partition(s)."
    # Why there is no election.
    no_topic: str = "No such topic as {name}"
    no_partition: str = "No such partition as {name}-{number}"
    # Put before the reason why replicas cannot be placed.
    placement_refused: str = "Unable to replicate the partition {wanted} time(s): "


METADATA_LOG_POLICY = StorePolicy()


class ControllerStore(Protocol):
    """Stores records in order."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        ...

    def append(self, epoch: int, records: Sequence[Message], *, level: int, atomic: bool) -> int:
        """Append records as the leader of this epoch, for a cluster at this metadata.version level.

        Returns the offset of the last one; `committed` follows once they are durable.  If not `atomic`, they
        may take effect one after another.  On KafkaError nothing was appended, or `lost` or `failed` follows.
        """
        ...

    def upgrade_kraft_version(self, epoch: int, kraft_version: int) -> None:
        """Append control records with this kraft.version and the voters, as the leader of this epoch."""
        ...


class StoreListener(Protocol):
    """Receives the events of a store, in order."""

    def committed(self, batches: Sequence[MetadataBatch], *, is_end: bool) -> None:
        """These batches are committed; `is_end` unless more committed batches follow immediately."""
        ...

    def loading_snapshot(self) -> None:
        """The next committed batches are those of a snapshot, which replaces everything before it."""
        ...

    def won(self, epoch: int) -> None:
        """This node's controller is active from now on."""
        ...

    def lost(self, epoch: int) -> None:
        """This node's controller is no longer active."""
        ...

    def failed(self, error: BaseException) -> None:
        """The store has failed; nothing more will be committed here."""
        ...
