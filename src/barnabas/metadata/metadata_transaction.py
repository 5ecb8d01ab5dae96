"""From records to an image: first a snapshot, then the log.

Handles metadata transactions (KIP-868), whose records take effect at the end of the transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.metadata.delta import Delta, InconsistentRecordError
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from barnabas.protocol.schema import Message

_BOUNDARIES: frozenset[type] = frozenset(
    (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)
)


class MetadataTransaction:
    """The open transaction of the log, if any: its records take effect at its end (KIP-868)."""

    def __init__(self) -> None:
        self._held: list[Message] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and has been neither ended nor aborted."""
        return self._held is not None

    def take(self, records: Sequence[Message]) -> Sequence[Message]:
        """Process the next records of the log; returns those that take effect now."""
        if self._held is None and _BOUNDARIES.isdisjoint(map(type, records)):
            return records
        effective: list[Message] = []
        for record in records:
            if type(record) in _BOUNDARIES:
                effective += self._handle_boundary(record)
            elif self._held is not None:
                self._held.append(record)
            else:
                effective.append(record)
        return effective

    def _handle_boundary(self, boundary: Message) -> Sequence[Message]:
        held = self._held
        if isinstance(boundary, BeginTransactionRecord):
            if held is not None:
                raise InconsistentRecordError("a transaction begins within another")
            self._held = []
            return ()
        if held is None:
            raise InconsistentRecordError("a transaction ends without having begun")
        self._held = None
        return held if isinstance(boundary, EndTransactionRecord) else ()


class Replay:
    """Takes batches in order; `delta` contains their effect, excluding an open transaction."""

    def __init__(self, before: Image = EMPTY_IMAGE) -> None:
        self.delta = Delta(before)
        self._transaction = MetadataTransaction()

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and has been neither ended nor aborted."""
        return self._transaction.is_open

    def take(self, records: Sequence[Message], last_offset: int, epoch: int, timestamp_ms: int) -> None:
        """Process one batch; a control batch has no records."""
        for record in self._transaction.take(records):
            self.delta.replay(record)
        self.delta.at(last_offset, epoch, timestamp_ms)

    def take_delta(self) -> Delta:
        """Returns the changes since the last call; the next delta starts from this image."""
        delta, self.delta = self.delta, Delta(self.delta.image)
        return delta
