"""From records to an image: a snapshot first, then the log.

What lives here: transactions (KIP-868), whose records take effect together with the end.  What may not: where
the records come from.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.metadata.delta import Delta, InconsistentRecordError
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from barnabas.protocol.schema import Message


class Replay:
    """Takes batches in order; `delta` is what they have led to, outside of a transaction that is open."""

    def __init__(self, before: Image = EMPTY_IMAGE) -> None:
        self.delta = Delta(before)
        self._held: list[Message] | None = None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and neither ended nor been aborted."""
        return self._held is not None

    def take(self, records: Iterable[Message], last_offset: int, epoch: int, timestamp_ms: int) -> None:
        """One batch, perhaps of none of our records."""
        for record in records:
            self._take(record)
        self.delta.at(last_offset, epoch, timestamp_ms)

    def _take(self, record: Message) -> None:
        held = self._held
        match record:
            case BeginTransactionRecord():
                if held is not None:
                    raise InconsistentRecordError("a transaction begins within another")
                self._held = []
            case EndTransactionRecord() | AbortTransactionRecord():
                if held is None:
                    raise InconsistentRecordError("a transaction ends that has not begun")
                self._held = None
                for one in held if isinstance(record, EndTransactionRecord) else ():
                    self.delta.apply(one)
            case _ if held is not None:
                held.append(record)
            case _:
                self.delta.apply(record)
