"""The controller's store in KRaft mode: the Raft node, and the metadata log behind it.

What lives here: how records become batches of the log, and how commits and leadership are reported.  What may
not: elections (raft/), files (metadata_folder), and what records mean.

What this node appended as the leader is reported from memory when it is committed; all else is read from the
log.  Leadership counts as won when the first record of the epoch is committed, and with it all before it.
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

# Records that wait for the disk, in bytes; with more the store takes none until some are safe.
MAX_UNCOMMITTED_BYTES = 64 * 1024 * 1024
# What is read from the log is reported in pieces of so many bytes.
REPORTED_BYTES = 4 * 1024 * 1024
# What a batch and each of its records need at most beside the values.
BATCH_OVERHEAD_BYTES = 61
RECORD_OVERHEAD_BYTES = 20


class _Appended(NamedTuple):
    """A batch that this leader has appended."""

    base_offset: int
    batch: MetadataBatch


class RaftStore:
    """Of one node, from the end of loading on.  It is where the effects of the Raft node leave to."""

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
        # They hear of everything in this order.
        self.listeners: list[StoreListener] = []
        self._folder = folder
        self._clock = clock
        # The epoch in which this node's leadership was reported.
        self._won: int | None = None
        self._winning: int | None = None
        # All before it was reported as committed; None: not even the snapshot was.
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
        """Stand for election; `won` follows if this node leads."""
        self._executor.step(Requested(None, Start()))

    def resign(self, epoch: int) -> None:
        """Lead no more in this epoch; `lost` follows."""
        self._executor.step(Requested(None, Resign(epoch)))

    @property
    def failure(self) -> BaseException | None:
        return self._executor.failure

    def close(self) -> None:
        """Nothing goes in or out any more."""
        self._is_closed = True
        self._executor.close()

    # What the controller asks

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
                f"{self._uncommitted_bytes} bytes of records wait for the disk of the metadata log; try"
                " again later",
            )
        values = [write_metadata_record(record, record_version(record, level)) for record in records]
        runs = _runs(values, self._folder.max_batch_bytes)
        if atomic and len(runs) > 1:
            raise too_large()
        for run in runs:
            self._append_batch(epoch, records[run.start : run.stop], tuple(values[run.start : run.stop]))
        return self.end_offset - 1

    def _append_batch(self, epoch: int, records: Sequence[Message], values: tuple[bytes, ...]) -> None:
        base_offset, now_ms = self.quorum.end_offset, self._clock.wall_ms()
        self._executor.step(Requested(None, Append(epoch, DataRecords(values, now_ms))))
        if self._executor.failure is not None:
            why = f"the metadata log failed: {self._executor.failure}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why)
        size = sum(map(len, values))
        batch = MetadataBatch(base_offset + len(records) - 1, epoch, now_ms, records, size)
        self._appended.append(_Appended(base_offset, batch))
        self._uncommitted_bytes += size

    # Exits of the Raft node

    def send(self, to: int, message: object) -> None:
        """A quorum of one has nobody to talk to."""

    def reply(self, to: Hashable, message: object) -> None:
        """The node refuses an append.  Whether it leads was looked at in the same step: it cannot be."""
        self.fail(RuntimeError(f"an append of the leader was refused: {message}"))

    def apply(self, decided: object) -> None:
        """What the quorum has decided."""
        try:
            match decided:
                case LeaderChanged(epoch, leader_id):
                    self._leader_changed(epoch, leader_id)
                case Committed(high_watermark):
                    self._commit(high_watermark)
        except Exception as error:
            # A committed record that cannot be read or applied: going on would spread the damage.
            logger.critical(
                "the metadata cannot be applied, this node stops: %s",
                error,
                exc_info=not isinstance(error, StorageRefused | MetadataLoadError),
            )
            self.fail(error)

    def _leader_changed(self, epoch: int, leader_id: int) -> None:
        self._winning = epoch if leader_id == self.quorum.me.id else None
        lost, self._won = self._won, None
        if lost is not None:
            logger.warning("node %d leads the metadata quorum no more in epoch %d", self.quorum.me.id, lost)
            # The log keeps them; if they are committed after all they are read from there.
            self._appended.clear()
            self._uncommitted_bytes = 0
            for listener in self.listeners:
                listener.lost(lost)

    def _commit(self, high_watermark: int) -> None:
        self._report(high_watermark)
        if self._winning is not None and not self._is_closed:
            self._win(self._winning)

    def _win(self, epoch: int) -> None:
        self._won, self._winning = epoch, None
        logger.info("node %d leads the metadata quorum in epoch %d", self.quorum.me.id, epoch)
        for listener in self.listeners:
            listener.won(epoch)

    # Reporting

    def _report(self, high_watermark: int) -> None:
        piece: list[MetadataBatch] = []
        size = 0
        for batch in self._committed_batches(high_watermark):
            if size >= REPORTED_BYTES:
                self._report_piece(piece, is_end=False)
                piece, size = [], 0
            piece.append(batch)
            size += batch.size
            self._next_offset = batch.last_offset + 1
        self._report_piece(piece, is_end=True)

    def _report_piece(self, piece: Sequence[MetadataBatch], *, is_end: bool) -> None:
        for listener in self.listeners:
            if not self._is_closed:
                listener.committed(piece, is_end=is_end)

    def _committed_batches(self, high_watermark: int) -> Iterator[MetadataBatch]:
        """All that was not reported, from memory where this leader appended it, else from the files."""
        if self._next_offset is None:
            yield from snapshot_batches(self._folder)
            latest = self._folder.snapshots.latest
            self._next_offset = self._folder.log.log_start_offset if latest is None else latest.offset
        while self._next_offset < high_watermark:
            in_memory = self._appended[0].base_offset if self._appended else high_watermark
            if self._next_offset < in_memory:
                end = min(in_memory, high_watermark)
                yield from batches_up_to(self._folder, self._next_offset, end)
                assert self._next_offset == end, "the log has all that is committed"
            else:
                batch = self._appended.popleft().batch
                self._uncommitted_bytes -= batch.size
                yield batch

    def fail(self, error: BaseException) -> None:
        """Nothing that rests on what failed may be told: stop here, and say so once."""
        if not self._is_closed:
            self._won = self._winning = None
            self.close()
            # Whoever waits for the controller is refused before the node hears that it has to stop.
            for listener in reversed(self.listeners):
                listener.failed(error)


def _runs(values: Sequence[bytes], max_bytes: int) -> list[range]:
    """Which values go into one batch together: as many as its limits allow."""
    runs = []
    start, size = 0, BATCH_OVERHEAD_BYTES
    for index, value in enumerate(values):
        needed = len(value) + RECORD_OVERHEAD_BYTES
        if index > start and (index - start >= MAX_RECORDS_PER_BATCH or size + needed > max_bytes):
            runs.append(range(start, index))
            start, size = index, BATCH_OVERHEAD_BYTES
        size += needed
    return [*runs, range(start, len(values))] if values else []
