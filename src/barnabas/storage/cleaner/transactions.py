"""The cleaner's view of transactions and producers while it reads a log from its start.

Contains which transactions were aborted, which still have records, and which batches must be kept for
producer state.  Records and keys belong in batch/engine/compaction.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping

from fastcrc import crc32

from barnabas.batch.compression import Codec, compress, decompress
from barnabas.batch.control import ControlType
from barnabas.storage.segment.transaction_index import AbortedTransaction

# Producer id -> (offset of its last data, None after a marker; its epoch).
LastRecords = Mapping[int, tuple[int | None, int]]


class CleanedTransactions:
    """Transactions open at the current position.  `keep_aborted` gets those whose marker must be kept."""

    __slots__ = ("_aborted", "_coming", "_committed", "keep_aborted")

    def __init__(self, keep_aborted: Callable[[AbortedTransaction], None] | None = None) -> None:
        self.keep_aborted = keep_aborted
        # Aborted transactions ahead, by first offset.
        self._coming: list[tuple[int, AbortedTransaction]] = []
        # Producer id -> its aborted transaction, and whether a batch of it was seen.
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._committed: set[int] = set()

    def expect_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        for transaction in transactions:
            heapq.heappush(self._coming, (transaction.first_offset, transaction))

    def _advance_to(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            _, transaction = heapq.heappop(self._coming)
            self._aborted.setdefault(transaction.producer_id, (transaction, False))

    def on_data(self, producer_id: int, last_offset: int) -> bool:
        """A transactional batch: returns whether its transaction was aborted."""
        self._advance_to(last_offset)
        aborted = self._aborted.get(producer_id)
        if aborted is None:
            self._committed.add(producer_id)
            return False
        self._aborted[producer_id] = (aborted[0], True)
        return True

    def on_marker(self, producer_id: int, last_offset: int, control_type: int) -> bool:
        """A control batch: returns whether it can be removed, as no batch of its transaction was seen."""
        self._advance_to(last_offset)
        if control_type == ControlType.ABORT:
            if producer_id in self._committed:
                raise _contradiction(producer_id, last_offset, "was aborted and is not there")
            aborted = self._aborted.pop(producer_id, None)
            if aborted is None or not aborted[1]:
                return True
            if self.keep_aborted is not None:
                self.keep_aborted(aborted[0])
            return False
        if control_type == ControlType.COMMIT:
            if self._aborted.get(producer_id, (None, False))[1]:
                raise _contradiction(producer_id, last_offset, "was committed and is there")
            had_data = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_data
        # A batch without records was cleaned before; other control records are never removed.
        return control_type == ControlType.UNKNOWN


def _contradiction(producer_id: int, offset: int, what: str) -> ValueError:
    """Cleaning deletes records for good: on a contradiction, remove none."""
    return ValueError(
        f"the transaction of producer {producer_id} that ends at offset {offset} {what} in the index of"
        " aborted ones, which must be damaged"
    )


class CleanerCallbacks:
    """The engine's callbacks during one pass over a log."""

    __slots__ = ("_last_records", "_transactions")

    def __init__(self, transactions: CleanedTransactions, last_records: LastRecords) -> None:
        self._transactions = transactions
        self._last_records = last_records

    def is_aborted(self, producer_id: int, last_offset: int) -> bool:
        return self._transactions.on_data(producer_id, last_offset)

    def is_marker_idle(self, producer_id: int, last_offset: int, control_type: int) -> bool:
        return self._transactions.on_marker(producer_id, last_offset, control_type)

    def ends_producer(self, producer_id: int, producer_epoch: int, last_offset: int, control: bool) -> bool:
        """Whether the batch must be kept: not if the producer has expired; else if it has the producer's last
        sequence number, or is the marker with its last epoch, without which a fenced producer could write."""
        last = self._last_records.get(producer_id)
        if last is None:
            return False
        last_data_offset, last_epoch = last
        if last_data_offset is not None:
            return last_offset == last_data_offset
        return control and producer_epoch == last_epoch

    def checksum(self, data: bytes) -> int:
        return crc32.iscsi(data)

    def decompress(self, codec: int, data: bytes) -> bytes:
        return decompress(Codec(codec), data)

    def compress(self, codec: int, data: bytes) -> bytes:
        return compress(Codec(codec), data)
