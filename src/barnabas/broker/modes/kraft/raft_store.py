"""The controller's store in KRaft mode: the Raft node and its metadata log.

Contains the batching of records, and the notification of commits and leadership.  Elections belong in raft/,
files in metadata_folder.py.

Batches that this node appended as the leader are reported from memory when they are committed; all others are
read from the log.  Leadership is reported when the first record of the epoch, and so everything before it, is
committed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from barnabas.base.effects import Requested
from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.modes.kraft.metadata_folder import MetadataFolder
from barnabas.broker.modes.kraft.metadata_folder_loader import batches_up_to, snapshot_batches
from barnabas.controller.decision import MAX_RECORDS_PER_BATCH, too_large
from barnabas.controller.store import StoreListener
from barnabas.metadata.loader import MetadataBatch, MetadataLoadError
from barnabas.metadata.snapshot import record_version
from barnabas.protocol.record_frame import write_metadata_record
from barnabas.protocol.schema import Message
from barnabas.raft.messages import Append, Committed, DataRecords, LeaderChanged, Resign, Start
from barnabas.raft.node import RaftNode
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.executor import Executor, GroupCommit, WorkerPool
from barnabas.runtime.loop.timers import TimerService
from barnabas.storage.refused import StorageRefused

logger = logging.getLogger(__name__)

# Bytes of uncommitted records; beyond that the store refuses appends.
MAX_UNCOMMITTED_BYTES = 64 * 1024 * 1024
# Batches that are read from the log are reported in chunks of this size.
REPORT_CHUNK_BYTES = 4 * 1024 * 1024
# Upper bounds for the overhead of a batch and of each record, without values.
BATCH_OVERHEAD_BYTES = 61
RECORD_OVERHEAD_BYTES = 20


class _Appended(NamedTuple):
    """A batch that this leader has appended."""

    base_offset: int
    batch: MetadataBatch


class RaftStore:
    """The store of one node after loading.  It receives the effects of the Raft node."""

    def __init__(
        self,
        quorum: RaftNode,
        folder: MetadataFolder,
        *,
        clock: Clock,
        timers: TimerService,
        workers: WorkerPool,
    ) -> None:
        self.quorum = quorum
        # Notified in this order.
        self.listeners: list[StoreListener] = []
        self._folder = folder
        self._clock = clock
        # The epoch for which this node's leadership was reported.
        self._reported_epoch: int | None = None
        self._elected_epoch: int | None = None
        # Everything before it was reported as committed; None: not even the snapshot was.
        self._next_offset: int | None = None
        self._appended: deque[_Appended] = deque()
        self._uncommitted_bytes = 0
        self._is_closed = False
        self._executor = Executor(
            quorum,
            clock=clock,
            timers=timers,
            store=folder,
            commit=GroupCommit(workers),
            exits=self,
            on_failure=self.fail,
        )

    def stand(self) -> None:
        """Starts an election; `won` follows if this node becomes the leader."""
        self._executor.step(Requested(None, Start()))

    def resign(self, epoch: int) -> None:
        """Resigns the leadership of this epoch; `lost` follows."""
        self._executor.step(Requested(None, Resign(epoch)))

    @property
    def failure(self) -> BaseException | None:
        return self._executor.failure

    def close(self) -> None:
        """Refuses appends and sends no more notifications."""
        self._is_closed = True
        self._executor.close()

    # Calls of the controller

    @property
    def end_offset(self) -> int:
        return self.quorum.end_offset

    def append(self, epoch: int, records: Sequence[Message], *, level: int, atomic: bool) -> int:
        """See `controller.store.ControllerStore`."""
        if self._is_closed or self.quorum.leader_epoch != epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"this node does not lead in epoch {epoch}")
        if self._uncommitted_bytes >= MAX_UNCOMMITTED_BYTES:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self._uncommitted_bytes} bytes of records are waiting for the metadata log's disk; try"
                " again later",
            )
        values = [write_metadata_record(record, record_version(record, level)) for record in records]
        runs = _batch_ranges(values, self._folder.max_batch_bytes)
        if atomic and len(runs) > 1:
            raise too_large()
        for run in runs:
            self._append_batch(epoch, records[run.start : run.stop], tuple(values[run.start : run.stop]))
        return self.end_offset - 1

    def _append_batch(self, epoch: int, records: Sequence[Message], values: tuple[bytes, ...]) -> None:
        base_offset, now_ms = self.quorum.end_offset, self._clock.wall_ms()
        self._executor.step(Requested(None, Append(epoch, DataRecords(values, now_ms))))
        if self._executor.failure is not None:
            reason = f"the metadata log failed: {self._executor.failure}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
        size = sum(map(len, values))
        batch = MetadataBatch(base_offset + len(records) - 1, epoch, now_ms, records, size)
        self._appended.append(_Appended(base_offset, batch))
        self._uncommitted_bytes += size

    # Effects of the Raft node

    def send(self, to: int, message: object) -> None:
        """A quorum of one has no other nodes."""

    def reply(self, to: Hashable, message: object) -> None:
        """Called when the node refuses an append.  Leadership was checked in the same step: a bug."""
        self.fail(RuntimeError(f"an append of the leader was refused: {message}"))

    def apply(self, effect: object) -> None:
        """Called with a change of leader or high watermark."""
        try:
            match effect:
                case LeaderChanged(epoch, leader_id):
                    self._leader_changed(epoch, leader_id)
                case Committed(high_watermark):
                    self._commit(high_watermark)
        except Exception as error:
            # A committed record cannot be read or applied: continuing would spread the damage.
            logger.critical(
                "the metadata cannot be applied; this node stops: %s",
                error,
                exc_info=not isinstance(error, StorageRefused | MetadataLoadError),
            )
            self.fail(error)

    def _leader_changed(self, epoch: int, leader_id: int) -> None:
        self._elected_epoch = epoch if leader_id == self.quorum.me.id else None
        lost, self._reported_epoch = self._reported_epoch, None
        if lost is not None:
            logger.warning("node %d no longer leads the metadata quorum in epoch %d", self.quorum.me.id, lost)
            # They remain in the log, and are read from there if they are committed after all.
            self._appended.clear()
            self._uncommitted_bytes = 0
            for listener in self.listeners:
                listener.lost(lost)

    def _commit(self, high_watermark: int) -> None:
        chunk: list[MetadataBatch] = []
        size = 0
        for batch in self._committed_batches(high_watermark):
            if size >= REPORT_CHUNK_BYTES:
                self._report_chunk(chunk, is_end=False)
                chunk, size = [], 0
            chunk.append(batch)
            size += batch.size
            self._next_offset = batch.last_offset + 1
        self._report_chunk(chunk, is_end=True)
        if self._elected_epoch is not None and not self._is_closed:
            self._report_leadership(self._elected_epoch)

    def _report_leadership(self, epoch: int) -> None:
        self._reported_epoch, self._elected_epoch = epoch, None
        logger.info("node %d leads the metadata quorum in epoch %d", self.quorum.me.id, epoch)
        for listener in self.listeners:
            listener.won(epoch)

    # Reporting

    def _report_chunk(self, chunk: Sequence[MetadataBatch], *, is_end: bool) -> None:
        for listener in self.listeners:
            if not self._is_closed:
                listener.committed(chunk, is_end=is_end)

    def _committed_batches(self, high_watermark: int) -> Iterator[MetadataBatch]:
        """Yields unreported batches, from memory if this leader appended them, else from the files."""
        if self._next_offset is None:
            yield from snapshot_batches(self._folder)
            latest = self._folder.snapshots.latest
            self._next_offset = self._folder.log.log_start_offset if latest is None else latest.offset
        while self._next_offset < high_watermark:
            in_memory = self._appended[0].base_offset if self._appended else high_watermark
            if self._next_offset < in_memory:
                end = min(in_memory, high_watermark)
                yield from batches_up_to(self._folder, self._next_offset, end)
                assert self._next_offset == end, "the log has all committed batches"
            else:
                batch = self._appended.popleft().batch
                self._uncommitted_bytes -= batch.size
                yield batch

    def fail(self, error: BaseException) -> None:
        """Stops the store: no response that depends on the failed write may be sent."""
        if not self._is_closed:
            self._reported_epoch = self._elected_epoch = None
            self.close()
            # Pending controller requests fail before the node is notified that it must stop.
            for listener in reversed(self.listeners):
                listener.failed(error)


def _batch_ranges(values: Sequence[bytes], max_bytes: int) -> list[range]:
    """Returns the ranges of values that share a batch, as large as its limits allow."""
    runs = []
    start, size = 0, BATCH_OVERHEAD_BYTES
    for index, value in enumerate(values):
        needed = len(value) + RECORD_OVERHEAD_BYTES
        if index > start and (index - start >= MAX_RECORDS_PER_BATCH or size + needed > max_bytes):
            runs.append(range(start, index))
            start, size = index, BATCH_OVERHEAD_BYTES
        size += needed
    return [*runs, range(start, len(values))] if values else []
