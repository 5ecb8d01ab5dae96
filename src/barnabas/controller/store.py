"""The controller's storage interface: the metadata log in KRaft mode, znodes in ZooKeeper mode.

Leadership is won with an epoch, after everything that earlier leaders committed has been reported, and is
lost with the same epoch.  In between, only this controller appends.  Records that were appended but not
reported as committed when leadership is lost may still be committed; they are then reported like any others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from barnabas.metadata.loader import MetadataBatch
from barnabas.protocol.schema import Message


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
