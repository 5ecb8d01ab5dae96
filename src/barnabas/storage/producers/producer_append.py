"""One producer's batches in one append: validated against its state, which changes only after the write.

Contains the producer state entry, the checks of epoch, sequence and transaction, and the changes of an
accepted batch.  The set of producers and its snapshots belong in producers.py.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import NamedTuple

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.check import AppendOrigin as AppendOrigin
from barnabas.batch.control import EndTransactionMarker
from barnabas.batch.records import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from barnabas.batch.view import MAX_SEQUENCE
from barnabas.storage.producers.producer_snapshot import SnapshotEntry

logger = logging.getLogger(__name__)

# The number of batches a client may have in flight; as many are kept to detect duplicates.
BATCHES_KEPT = 5


class BatchMetadata(NamedTuple):
    """The metadata of a batch that a producer has written."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) % (MAX_SEQUENCE + 1)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    """A transaction ended by the marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerEntry:
    """The state of one producer in this log."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_transaction_first_offset",
        "epoch",
        "last_timestamp",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = NO_TIMESTAMP,
        current_transaction_first_offset: int | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_transaction_first_offset = current_transaction_first_offset
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_KEPT)

    @classmethod
    def of_snapshot(cls, row: SnapshotEntry) -> ProducerEntry:
        first = row.current_transaction_first_offset
        entry = cls(
            row.producer_id, row.epoch, row.coordinator_epoch, row.timestamp, first if first >= 0 else None
        )
        if row.last_offset >= 0:
            entry.batches.append(
                BatchMetadata(row.last_sequence, row.last_offset, row.offset_delta, row.timestamp)
            )
        return entry

    def to_snapshot(self) -> SnapshotEntry:
        last = self.batches[-1] if self.batches else BatchMetadata(NO_SEQUENCE, -1, 0, NO_TIMESTAMP)
        first = self.current_transaction_first_offset
        return SnapshotEntry(
            self.producer_id,
            self.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            self.last_timestamp,
            self.coordinator_epoch,
            -1 if first is None else first,
        )

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int | None:
        return self.batches[-1].last_offset if self.batches else None

    def duplicate_of(self, epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """The cached batch with exactly these sequence numbers."""
        if epoch == self.epoch:
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                    return batch
        return None

    def wrote(self, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> None:
        """Record a batch of the same epoch that follows the last one."""
        self.batches.append(BatchMetadata(last_sequence, last_offset, offset_delta, timestamp))
        self.last_timestamp = timestamp

    def take_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch

    def update(self, later: ProducerEntry) -> None:
        """Apply the changes of an append."""
        self.take_epoch(later.epoch)
        self.batches.extend(later.batches)
        self.coordinator_epoch = later.coordinator_epoch
        self.current_transaction_first_offset = later.current_transaction_first_offset
        self.last_timestamp = later.last_timestamp


class Verification:
    """The verification of a producer's transaction with its coordinator (KIP-890).

    The object itself is the verification guard: a verified append passes it back, and it must still be the
    current one; otherwise an end marker was written in between.
    """

    __slots__ = ("created_ms", "epoch", "lowest_sequence", "supports_epoch_bump")

    def __init__(self, created_ms: int, sequence: int, epoch: int, supports_epoch_bump: bool) -> None:
        self.created_ms = created_ms
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump

    def saw(self, sequence: int, epoch: int) -> None:
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch = epoch
            self.lowest_sequence = sequence


class ProducerAppend:
    """The batches of one producer in one append.  Nothing changes until the caller applies `updated`."""

    __slots__ = ("_current", "_log_name", "_origin", "_verification", "started", "updated")

    def __init__(
        self, log_name: str, current: ProducerEntry, origin: AppendOrigin, verification: Verification | None
    ) -> None:
        self._log_name = log_name
        self._current = current
        self._origin = origin
        self._verification = verification
        self.updated = ProducerEntry(
            current.producer_id,
            current.epoch,
            current.coordinator_epoch,
            current.last_timestamp,
            current.current_transaction_first_offset,
        )
        # First offsets of transactions that start in this append.
        self.started: list[int] = []

    def add_data(
        self,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        timestamp: int,
        first_offset: int,
        last_offset: int,
        transactional: bool,
    ) -> None:
        self._check_epoch(epoch, first_offset)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(epoch, first_sequence, first_offset)
        updated = self.updated
        updated.take_epoch(epoch)
        updated.batches.append(
            BatchMetadata(last_sequence, last_offset, last_offset - first_offset, timestamp)
        )
        updated.last_timestamp = timestamp
        if updated.current_transaction_first_offset is None:
            if transactional:
                updated.current_transaction_first_offset = first_offset
                self.started.append(first_offset)
        elif not transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {updated.producer_id} {self._at(first_offset)}",
            )

    def add_marker(
        self, marker: EndTransactionMarker, epoch: int, offset: int, timestamp: int
    ) -> CompletedTransaction | None:
        """The transaction that the marker completes; None if it had no records here."""
        self._check_epoch(epoch, offset)
        self._check_coordinator_epoch(marker.coordinator_epoch, offset)
        updated = self.updated
        first_offset = updated.current_transaction_first_offset
        updated.take_epoch(epoch)
        updated.coordinator_epoch = marker.coordinator_epoch
        updated.current_transaction_first_offset = None
        updated.last_timestamp = timestamp
        if first_offset is None:
            return None
        return CompletedTransaction(updated.producer_id, first_offset, offset, not marker.commit)

    def _check_epoch(self, epoch: int, offset: int) -> None:
        updated = self.updated
        if epoch >= updated.epoch:
            return
        message = (
            f"Epoch of producer {updated.producer_id} {self._at(offset)} is {epoch}, "
            f"which is smaller than the last seen epoch {updated.epoch}"
        )
        if self._origin is not AppendOrigin.REPLICATION:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, message)
        logger.warning("%s", message)  # the leader accepted it, so a follower must too

    def _check_coordinator_epoch(self, coordinator_epoch: int, offset: int) -> None:
        updated = self.updated
        if coordinator_epoch >= updated.coordinator_epoch:
            return
        message = (
            f"Invalid coordinator epoch for producer {updated.producer_id} {self._at(offset)}: "
            f"{coordinator_epoch} (zombie), {updated.coordinator_epoch} (current)"
        )
        if self._origin is not AppendOrigin.REPLICATION:
            raise KafkaError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, message)
        logger.info("%s", message)

    def _check_sequence(self, epoch: int, first_sequence: int, offset: int) -> None:
        verification, updated, current = self._verification, self.updated, self._current
        if verification is not None:
            if verification.supports_epoch_bump and first_sequence != 0 and not current.batches:
                self._out_of_order(
                    offset, f"{first_sequence} (first sequence of a new producer), 0 is expected"
                )
            if first_sequence > verification.lowest_sequence:
                self._out_of_order(
                    offset,
                    f"{first_sequence} (incoming seq. number), "
                    f"{verification.lowest_sequence} (earliest seen sequence)",
                )
        if epoch != updated.epoch:
            if first_sequence != 0 and updated.epoch != NO_PRODUCER_EPOCH:
                self._out_of_order(
                    offset,
                    f"{epoch} (request epoch), {first_sequence} (seq. number), "
                    f"{updated.epoch} (current producer epoch)",
                )
            return
        if updated.batches:
            last = updated.last_sequence
        else:
            last = current.last_sequence if epoch == current.epoch else NO_SEQUENCE
        # An unknown producer (e.g. one whose records were deleted) may start with any sequence (KIP-360).
        if current.epoch != NO_PRODUCER_EPOCH and not _follows(last, first_sequence):
            self._out_of_order(
                offset, f"{first_sequence} (incoming seq. number), {last} (current end sequence number)"
            )

    def _out_of_order(self, offset: int, what: str) -> None:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {self.updated.producer_id}"
            f" {self._at(offset)}: {what}",
        )

    def _at(self, offset: int) -> str:
        return f"at offset {offset} in partition {self._log_name}"


def _follows(last: int, following: int) -> bool:
    return following == last + 1 or (following == 0 and last == MAX_SEQUENCE)
