"""A completed fetch of one partition: batches that are decoded on demand.

Contains decoding, and filtering of what a reader must not see (control records, aborted transactions).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.compression import DECOMPRESSED_LIMIT, Codec
from barnabas.batch.control import batch_marker
from barnabas.batch.engine.consume import ConsumerRecord, decode_consumed
from barnabas.batch.engine.faults import fault_text
from barnabas.batch.faults import CorruptBatch
from barnabas.batch.legacy import OldBatch, all_batches
from barnabas.batch.records import TimestampType
from barnabas.batch.view import HEADER_SIZE, LOG_APPEND_TIME_FLAG, BatchView
from barnabas.client.model import NO_EPOCH, TopicPartition
from barnabas.protocol.primitives import Buffer


class AbortedTransaction(NamedTuple):
    """The first record of an aborted transaction."""

    first_offset: int
    producer_id: int


class CompletedFetch:
    """The batches of one fetch response, from the fetch offset on.

    With `aborted` (isolation read_committed) the records of aborted transactions are skipped; it is None for
    read_uncommitted.
    """

    __slots__ = (
        "_aborted",
        "_aborting",
        "_all_aborted",
        "_batches",
        "_check_crcs",
        "_first_offset",
        "_next",
        "_records",
        "_taken",
        "data",
        "end_offset",
        "next_offset",
        "offset_epoch",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        data: Buffer,
        fetch_offset: int,
        aborted: Sequence[AbortedTransaction] | None,
        check_crcs: bool,
    ) -> None:
        self.topic_partition = topic_partition
        # Not accessed after everything was taken.
        self.data = data
        self._first_offset = fetch_offset
        self._all_aborted = aborted
        self._aborted = None if aborted is None else sorted(aborted, reverse=True)
        # Producers whose transaction at this point of the log was aborted.
        self._aborting: set[int] = set()
        self._check_crcs = check_crcs
        self._batches: list[BatchView | OldBatch] = list(all_batches(data))
        self._next = 0
        self._records: list[ConsumerRecord[bytes, bytes | None]] = []
        self._taken = 0
        # The position after the records taken so far.
        self.next_offset = fetch_offset
        self.offset_epoch = NO_EPOCH
        self.end_offset = fetch_offset
        if self._batches:
            self.end_offset = max(fetch_offset, self._batches[-1].next_offset)

    @property
    def size(self) -> int:
        return len(self.data)

    def take(self, most: int) -> list[ConsumerRecord[bytes, bytes | None]]:
        """Return the next records, at most `most`; an empty list when all have been taken."""
        while self._taken >= len(self._records):
            batch = self.next_batch()
            if batch is None:
                return []
            try:
                self._records = self._decode(batch)
            except KafkaError:
                # The same error is raised again until the reader seeks elsewhere.
                self._next -= 1
                raise
            self._taken = 0
            if not self._records:
                self._passed(batch)
        if not self._taken and len(self._records) <= most:
            taken = self._records
        else:
            taken = self._records[self._taken : self._taken + most]
        self._taken += len(taken)
        self.next_offset = taken[-1].offset + 1
        self.offset_epoch = taken[-1].leader_epoch
        return taken

    def rest(self) -> CompletedFetch:
        """Return what was not taken yet as a completed fetch of its own; its batches are already located."""
        left = CompletedFetch(
            self.topic_partition, b"", self.next_offset, self._all_aborted, self._check_crcs
        )
        left.data, left._batches, left.end_offset = self.data, self._batches, self.end_offset
        return left

    @property
    def first_offset(self) -> int:
        """Records below it may be in the first batch; they were not requested."""
        return self._first_offset

    def finish(self) -> None:
        """Skip to the end: control records, and gaps left by compaction, are never taken."""
        self.next_offset = max(self.next_offset, self.end_offset)

    def next_batch(self) -> BatchView | OldBatch | None:
        """Return the next batch with visible records."""
        while self._next < len(self._batches):
            batch = self._batches[self._next]
            if isinstance(batch, BatchView) and batch.next_offset > self._first_offset and self._check_crcs:
                batch.ensure_valid()
            self._next += 1
            if isinstance(batch, OldBatch):
                return batch
            if batch.next_offset <= self._first_offset:
                continue
            if batch.is_control:
                self._end_transaction(batch)
            elif not self._is_aborted(batch):
                return batch
            self._passed(batch)
        return None

    def _passed(self, batch: BatchView | OldBatch) -> None:
        """Advance past a batch without visible records."""
        if isinstance(batch, BatchView):
            self.next_offset = batch.next_offset
            self.offset_epoch = batch.leader_epoch

    def _end_transaction(self, batch: BatchView) -> None:
        if self._aborted is None:
            return
        # The aborted records may precede the fetched range, so this may be the first sign of them.
        self._begin_aborted(batch.last_offset)
        marker = batch_marker(batch)
        if marker is not None and not marker.commit:
            self._aborting.discard(batch.producer_id)

    def _is_aborted(self, batch: BatchView) -> bool:
        if self._aborted is None or not batch.is_transactional:
            return False
        self._begin_aborted(batch.last_offset)
        return batch.producer_id in self._aborting

    def _begin_aborted(self, last_offset: int) -> None:
        """Mark producers of the aborted transactions that begin up to an offset."""
        while self._aborted and self._aborted[-1].first_offset <= last_offset:
            self._aborting.add(self._aborted.pop().producer_id)

    def _decode(self, batch: BatchView | OldBatch) -> list[ConsumerRecord[bytes, bytes | None]]:
        if isinstance(batch, OldBatch):
            return self._decode_old(batch)
        if isinstance(self.data, bytes) and batch.codec is Codec.NONE:
            data, start, end = self.data, batch.start + HEADER_SIZE, batch.end
        else:
            data = batch.payload(DECOMPRESSED_LIMIT)
            start, end = 0, len(data)
        batch.ensure_count_fits(end - start)
        stamped = batch.attributes & LOG_APPEND_TIME_FLAG != 0
        records: list[ConsumerRecord[bytes, bytes | None]] = []
        fault, index = decode_consumed(
            data,
            start,
            end,
            batch.record_count,
            batch.base_offset,
            batch.max_timestamp if stamped else batch.base_timestamp,
            stamped,
            self._first_offset,
            self.topic_partition.topic,
            self.topic_partition.partition,
            batch.leader_epoch,
            TimestampType.LOG_APPEND_TIME if stamped else TimestampType.CREATE_TIME,
            records,
        )
        if fault:
            raise CorruptBatch(
                f"record {index} of the batch at offset {batch.base_offset} of {self.topic_partition}: "
                f"{fault_text(fault)}; seek past it to continue",
                ErrorCode.CORRUPT_MESSAGE,
            )
        return records

    def _decode_old(self, batch: OldBatch) -> list[ConsumerRecord[bytes, bytes | None]]:
        """Decode the formats before v2, which current brokers have only in old logs."""
        kind = batch.timestamp_type
        return [
            ConsumerRecord(
                self.topic_partition.topic,
                self.topic_partition.partition,
                NO_EPOCH,
                record.offset,
                record.timestamp,
                kind,
                record.key,
                record.value,
                record.headers,
            )
            for record in batch.records()
            if record.offset >= self._first_offset
        ]
