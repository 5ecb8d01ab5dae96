"""From records to an image: a snapshot first, then the log.

What lives here: transactions (KIP-868), whose records take effect together with the end.  What may not: where
the records come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barnabas.metadata.delta import Delta, InconsistentRecordError
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from barnabas.protocol.schema import Message

_BOUNDARIES = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


class MetadataTransaction:
    """The transaction that the log is in, if it is in one: its records count with its end (KIP-868)."""

    def __init__(self) -> None:
        self._held: list[Message] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and neither ended nor been aborted."""
        return self._held is not None

    def take(self, records: Iterable[Message]) -> Sequence[Message]:
        """The next records of the log; those that count from now on."""
        counting: list[Message] = []
        for record in records:
            if isinstance(record, _BOUNDARIES):
                counting += self._cross(record)
            elif self._held is not None:
                self._held.append(record)
            else:
                counting.append(record)
        return counting

    def _cross(self, boundary: Message) -> Sequence[Message]:
        held = self._held
        if isinstance(boundary, BeginTransactionRecord):
            if held is not None:
                raise InconsistentRecordError("a transaction begins within another")
            self._held = []
            return ()
        if held is None:
            raise InconsistentRecordError("a transaction ends that has not begun")
        self._held = None
        return held if isinstance(boundary, EndTransactionRecord) else ()


class Replay:
    """Takes batches in order; `delta` is what they have led to, outside of a transaction that is open."""

    def __init__(self, before: Image = EMPTY_IMAGE) -> None:
        self.delta = Delta(before)
        self._transaction = MetadataTransaction()

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and neither ended nor been aborted."""
        return self._transaction.is_open

    def take(self, records: Iterable[Message], last_offset: int, epoch: int, timestamp_ms: int) -> None:
        """One batch, perhaps of none of our records."""
        for record in self._transaction.take(records):
            self.delta.apply(record)
        self.delta.at(last_offset, epoch, timestamp_ms)

    def take_delta(self) -> Delta:
        """What the batches have led to since the last call; the next delta begins where it ends."""
        delta, self.delta = self.delta, Delta(self.delta.image)
        return delta
