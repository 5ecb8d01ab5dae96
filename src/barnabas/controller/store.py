"""Where the controller keeps its decisions: the metadata log of KRaft mode, or the znodes of ZooKeeper mode.

What lives here: what the controller needs of a store, and what it hears from it.  What may not: how records
are kept, and elections.

Leadership is won with an epoch, and only after all that earlier leaders have committed was reported; it is
lost with the same epoch.  Between the two the controller alone appends.  What was appended and not reported
as committed when leadership is lost may yet be committed: it is reported then, like any other record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from barnabas.metadata.loader import MetadataBatch
from barnabas.protocol.schema import Message


class ControllerStore(Protocol):
    """Keeps records in order."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        ...

    def append(self, epoch: int, records: Sequence[Message], *, level: int, atomic: bool) -> int:
        """Take records of the leader of this epoch, for a cluster at this metadata.version level.

        The offset of the last one; `committed` follows when they are safe.  Unless `atomic` they may count
        one after another.  KafkaError: nothing was taken, or else `lost` or `failed` follows.
        """
        ...


class StoreListener(Protocol):
    """Hears, in order, what becomes of a store."""

    def committed(self, batches: Sequence[MetadataBatch], *, is_end: bool) -> None:
        """These are decided for ever; `is_end` unless more that is committed follows at once."""
        ...

    def won(self, epoch: int) -> None:
        """This node's controller leads from now on."""
        ...

    def lost(self, epoch: int) -> None:
        """It does not any more."""
        ...

    def failed(self, error: BaseException) -> None:
        """The store cannot go on; nothing more will be committed here."""
        ...
