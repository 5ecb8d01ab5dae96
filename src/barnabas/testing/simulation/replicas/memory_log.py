"""A log of a running broker, in memory: the offsets and leader epochs are those of `Log`, the files are not.

Replaces what `Log` does with files: append, read, truncate, flush, recover.  Contains no rule of replication.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.runtime.disk.disk import Buffer
from barnabas.storage.failure import DirectoryFull
from barnabas.storage.log.appends import AppendResult, UnexpectedAppendOffset
from barnabas.storage.log.leader_epochs import EpochsWrite, LeaderEpochs
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LONG_MAX, LogOptions
from barnabas.storage.log.log_reader import EARLIEST_TIMESTAMP, ReadResult, TimestampAndOffset
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.producers.producer_append import AppendOrigin, Verification
from barnabas.testing.simulation.replicas.stored_log import (
    BATCH,
    BATCHES_PER_FILE,
    Batch,
    EpochsFile,
    StoredLog,
    encode,
)

# A read returns as many batches, so that a follower takes several.
MAX_BATCHES = 4


class _NoProducers:
    """There are no sequence numbers and no transactions."""

    first_unstable_offset = None
    is_empty = True

    def on_high_watermark(self, offset: int) -> None: ...

    def on_log_start(self, offset: int) -> None: ...


class _StoredEpochs(LeaderEpochs):
    """The leader epochs, with their file in memory."""

    __slots__ = ("_stored",)

    def __init__(self, stored: EpochsFile) -> None:
        self._stored = stored
        super().__init__(cast(Any, None), "")

    def moved_to(self, folder: str) -> None:
        self._file = cast(Any, self._stored)


class Records:
    """A range of a log: what responses need of a `Slice`."""

    __slots__ = ("_batches", "length")

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = batches
        self.length = len(batches) * BATCH.size

    def read(self) -> bytes:
        return encode(self._batches)


class MemoryLog(Log):
    """One replica's log.  `on_append` is told of each batch, and of the one before it in this log."""

    def __init__(
        self,
        name: TopicPartition,
        stored: StoredLog,
        options: LogOptions,
        on_append: Callable[[TopicPartition, Batch | None, Batch], None],
    ) -> None:
        self.topic, self.partition = self.key = name
        self._on_append = on_append
        self.stored = stored
        self._options = options
        self.producers = cast(Any, _NoProducers())
        self.first_unstable_offset = None
        self.is_truncating = False
        self.full = None
        self.was_closed = False
        self.local = cast(Any, SimpleNamespace(is_closed_part_unflushed=False))
        # A flush that was planned before a truncation does not count.
        self._cuts = 0
        self.epochs = _StoredEpochs(stored.epochs)
        self._recover()

    def _recover(self) -> None:
        """As `LogLoader` does, after a stop without flush."""
        stored, epochs = self.stored, self.epochs
        epochs.load()
        for batch in stored.batches:
            if batch.end > stored.recovery_checkpoint:
                epochs.restore(batch.epoch, batch.base_offset)
        end = stored.end_offset
        self.log_start_offset = min(max(stored.log_start_checkpoint, stored.start_offset), end)
        has_lost_epochs = any(entry.start_offset > end for entry in epochs.entries)
        epochs.truncate_from_end(end)
        epochs.truncate_from_start(self.log_start_offset)
        if has_lost_epochs:
            epochs.write_out()
        self.end_offset = end
        self.high_watermark = self.log_start_offset
        stored.synced_end = min(stored.synced_end, end)
        if self.options.flush_messages != LONG_MAX:
            # Or consumers would see nothing before the next flush.
            epochs.write_out()
            stored.synced_end = end

    # What has no files

    @property
    def folder(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def options(self) -> LogOptions:
        return self._options

    @property
    def active(self) -> Any:
        """A read never ends at a closed segment."""
        return self

    @property
    def base_offset(self) -> int:
        return 0

    @property
    def is_closed(self) -> bool:
        return self.was_closed

    @property
    def recovery_point(self) -> int:
        return self.stored.synced_end

    # Append and read

    def append_as_leader(
        self,
        buffer: Buffer,
        leader_epoch: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification: Verification | None = None,
    ) -> AppendResult:
        _, count, _, value = BATCH.unpack_from(buffer)
        return self._append([Batch(self.end_offset, count, leader_epoch, value)])

    def append_as_follower(self, buffer: Buffer, leader_epoch: int) -> AppendResult:
        batches: list[Batch] = []
        for fields in BATCH.iter_unpack(buffer):
            batch = Batch(*fields)
            if batch.epoch > leader_epoch:
                break
            batches.append(batch)
        if not batches:
            return AppendResult(self.end_offset, self.end_offset - 1, -1, -1, self.log_start_offset, 0)
        first = batches[0].base_offset
        if first < self.end_offset:
            raise UnexpectedAppendOffset(f"{self.name}: {first}", first, batches[-1].end - 1)
        return self._append(batches)

    def _append(self, batches: list[Batch]) -> AppendResult:
        if self.is_truncating or self.was_closed:
            raise AssertionError(f"{self.name} is appended to while it is truncated, or closed")
        if self.full is not None:
            raise DirectoryFull(self.folder, "appending", self.full)
        stored = self.stored
        before = stored.batches[-1] if stored.batches else None
        for batch in batches:
            self.epochs.assign(batch.epoch, batch.base_offset)
            stored.batches.append(batch)
            self._on_append(self.key, before, batch)
            before = batch
        first, end = batches[0].base_offset, batches[-1].end
        self.end_offset = end
        return AppendResult(first, end - 1, -1, -1, self.log_start_offset, len(batches) * BATCH.size)

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        upper_bound: int,
        min_one_batch: bool = True,
        read_committed: bool = False,
        may_wait: bool = True,
    ) -> ReadResult:
        if not self.log_start_offset <= offset <= self.end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        batches = self.stored.batches
        if not batches or offset >= upper_bound:
            return ReadResult(offset, 0, 0)
        first = self.index_of(offset)
        found = [batch for batch in batches[first : first + MAX_BATCHES] if batch.base_offset < upper_bound]
        return ReadResult(offset, 0, 0, cast(Any, Records(found)) if found else None)

    def offset_for_time(self, timestamp: int) -> TimestampAndOffset | None:
        """Where the log starts; records have no timestamps."""
        assert timestamp == EARLIEST_TIMESTAMP, "followers ask for no other"
        return TimestampAndOffset(-1, self.log_start_offset, None)

    def index_of(self, offset: int) -> int:
        """The index of the batch that contains this offset, or of the first one after it."""
        batches = self.stored.batches
        index = bisect_right(batches, offset, key=lambda batch: batch.base_offset) - 1
        return index if index >= 0 and batches[index].end > offset else index + 1

    # Truncation: what must wait for the device is done by the caller, who then calls `truncation_synced`

    def begin_truncation(self, offset: int, log_start_offset: int | None) -> EpochsWrite | None:
        """Remove batches in the page cache; returns the write of the leader epochs that belongs to it."""
        self.is_truncating = True
        self._cuts += 1
        if log_start_offset is not None or (self.stored.batches and offset < self.stored.start_offset):
            self._restart(offset, offset if log_start_offset is None else log_start_offset)
        elif offset >= self.end_offset:
            self.epochs.truncate_from_end(self.end_offset)
        else:
            self._cut(offset)
        return self.epochs.plan_write()

    def _restart(self, offset: int, log_start_offset: int) -> None:
        stored = self.stored
        self._drop(0)
        stored.first_offset = self.end_offset = offset
        self.epochs.clear(write=False)
        self.log_start_offset = log_start_offset
        self.high_watermark = offset
        self._limit_synced(offset)

    def _cut(self, offset: int) -> None:
        stored = self.stored
        self._drop(self.index_of(offset))
        if not stored.batches:
            stored.first_offset = offset
        # The rest of a batch within which the offset lies goes too; the next one begins at the offset.
        self.end_offset = offset
        self.epochs.truncate_from_end(offset)
        self.log_start_offset = min(offset, self.log_start_offset)
        self.high_watermark = min(offset, self.high_watermark)
        self._limit_synced(offset)

    def _drop(self, index: int) -> None:
        stored = self.stored
        going = stored.batches[index:]
        del stored.batches[index:]
        if not stored.truncated:
            stored.truncated = going

    def _limit_synced(self, offset: int) -> None:
        stored = self.stored
        stored.synced_end = min(stored.synced_end, offset)

    def truncation_synced(self, epochs: EpochsWrite | None) -> None:
        stored = self.stored
        stored.truncated = []
        stored.recovery_checkpoint = min(stored.recovery_checkpoint, self.end_offset)
        if epochs is not None:
            self.epochs.written(epochs)

    # Flushes and checkpoints

    def begin_flush(self) -> tuple[int, int, int, EpochsWrite | None]:
        """What a flush that begins now makes durable; it belongs to `end_flush`."""
        return self._cuts, self.end_offset, self.stored.start_offset, self.epochs.plan_write()

    def end_flush(self, flush: tuple[int, int, int, EpochsWrite | None]) -> bool:
        """The device has it; returns whether that counts."""
        cuts, end, start, epochs = flush
        if epochs is not None:
            epochs.run()
        if cuts != self._cuts or self.was_closed:
            return False
        stored = self.stored
        if epochs is not None:
            self.epochs.written(epochs)
        if start == stored.start_offset:
            stored.removed = []
        stored.synced_end = max(stored.synced_end, end)
        self.epochs.start_is_durable(start)
        return True

    def checkpoint(self) -> None:
        """The periodic tasks: the high watermark, the log start and the recovery point."""
        stored = self.stored
        stored.high_watermark_checkpoint = self.high_watermark
        # A later one releases what the one before has made durable.
        if stored.log_start_checkpoint:
            self.epochs.start_is_durable(stored.log_start_checkpoint)
        is_in_file = self.log_start_offset > stored.start_offset or bool(stored.removed)
        stored.log_start_checkpoint = self.log_start_offset if is_in_file else 0
        stored.recovery_checkpoint = min(stored.synced_end, self.end_offset)

    def remove_files(self) -> None:
        """Whole files before the log start go."""
        batches = self.stored.batches
        deleted = 0
        while deleted < len(batches) - 1 and batches[deleted].end <= self.log_start_offset:
            deleted += 1
        deleted -= deleted % BATCHES_PER_FILE
        if deleted:
            self.stored.removed += batches[:deleted]
            del batches[:deleted]

    def power_loss(self) -> None:
        self.was_closed = True
