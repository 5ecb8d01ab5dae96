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
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from barnabas.base.effects import Received, Requested
from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.modes.kraft.metadata_folder import MetadataFolder
from barnabas.broker.modes.kraft.metadata_folder_loader import batches_up_to, snapshot_batches
from barnabas.broker.modes.kraft.quorum.channel import QuorumChannel
from barnabas.broker.modes.kraft.quorum.peer_checks import ReplicaDirectories
from barnabas.controller.decision import MAX_RECORDS_PER_BATCH, too_large
from barnabas.controller.store import StoreListener
from barnabas.metadata.loader import MetadataBatch, MetadataLoadError
from barnabas.metadata.snapshot import record_version
from barnabas.protocol.record_frame import write_metadata_record
from barnabas.protocol.schema import Message
from barnabas.raft.messages import (
    Append,
    DataRecords,
    HighWatermark,
    LeaderChanged,
    Resign,
    Shutdown,
    SnapshotTaken,
    Start,
    UpgradeKraftVersion,
)
from barnabas.raft.node import RaftNode
from barnabas.raft.quorum_state_file import NOBODY
from barnabas.raft.rpc import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    InboundResponse,
    OutboundRequest,
)
from barnabas.raft.snapshot import MAX_BATCH_BYTES, SnapshotId
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.executor import Executor, WorkerPool
from barnabas.runtime.loop.promise import Promise
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
        # To the other nodes; None in a quorum of one without observers.
        self.channel: QuorumChannel | None = None
        # Called when this node knows another leader, or a leader at last.
        self.on_leader_change: Callable[[], None] = _nothing
        # Called with every other leader and epoch, also with an epoch that has no leader yet.
        self.on_leader_report: Callable[[int, int], None] = _no_report
        # Notified of commits in this order.
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
        self._directories = ReplicaDirectories()
        self._executor = Executor(
            quorum,
            clock=clock,
            timers=timers,
            store=folder,
            workers=workers,
            exits=self,
            on_failure=self.fail,
        )

    def stand(self) -> None:
        """Starts an election; `won` follows if this node becomes the leader."""
        self._executor.step(Requested(None, Start()))

    def resign(self, epoch: int) -> None:
        """Resigns the leadership of this epoch; `lost` follows."""
        self._executor.step(Requested(None, Resign(epoch)))

    def shut_down(self) -> None:
        """The node is about to stop: a leader resigns."""
        self._executor.step(Requested(None, Shutdown()))

    def snapshot_taken(self, snapshot: SnapshotId) -> None:
        """This node has written a snapshot, or deleted records that one contains."""
        self._executor.step(Requested(None, SnapshotTaken(snapshot, self._folder.log.log_start_offset)))

    @property
    def failure(self) -> BaseException | None:
        return self._executor.failure

    def close(self) -> None:
        """Refuses appends and sends no more notifications."""
        self._is_closed = True
        self._executor.close()
        if self.channel is not None:
            self.channel.close()

    def when_idle(self, action: Callable[[], None]) -> None:
        """Call this when no worker uses the files; meant for a closed store."""
        self._executor.when_idle(action)

    # Other nodes

    def request(self, message: object) -> Promise[object]:
        """A request of another node, or of an administrator; completed by the Raft node."""
        response: Promise[object] = Promise()
        if self._is_closed:
            response.fail(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "this node is stopping"))
        elif isinstance(message, FetchRequest) and self._directories.is_duplicate(
            self.quorum, message.replica, self._clock.monotonic_ns()
        ):
            response.fail(
                KafkaError(
                    ErrorCode.DUPLICATE_VOTER, f"another node with the id {message.replica.id} fetches"
                )
            )
        else:
            self._executor.step(Requested(response, message))
        return response

    def received(self, peer_id: int, response: InboundResponse) -> None:
        """The response of another node to a request of this one, or that there was none."""
        self._executor.step(Received(peer_id, response))

    # Calls of the controller

    @property
    def end_offset(self) -> int:
        return self.quorum.end_offset

    def append(self, epoch: int, records: Sequence[Message], *, level: int, atomic: bool) -> int:
        """See `controller.store.ControllerStore`."""
        self._check_leads(epoch)
        if self._uncommitted_bytes >= MAX_UNCOMMITTED_BYTES:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self._uncommitted_bytes} bytes of records are waiting for the metadata log's disk; try"
                " again later",
            )
        values = [write_metadata_record(record, record_version(record, level)) for record in records]
        ranges = _batch_ranges(values, self._folder.max_batch_bytes)
        if atomic and len(ranges) > 1:
            raise too_large()
        for batch_range in ranges:
            # The step of an earlier batch may have ended the leadership: its quorum was lost in the meantime.
            self._check_leads(epoch)
            base_offset, now_ms = self.quorum.end_offset, self._clock.wall_ms()
            batch_values = tuple(values[batch_range.start : batch_range.stop])
            self._executor.step(Requested(None, Append(epoch, DataRecords(batch_values, now_ms))))
            if self._executor.failure is not None:
                reason = f"the metadata log failed: {self._executor.failure}"
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
            batch_records = records[batch_range.start : batch_range.stop]
            size = sum(map(len, batch_values))
            last_offset = base_offset + len(batch_records) - 1
            batch = MetadataBatch(last_offset, epoch, now_ms, batch_records, size)
            self._appended.append(_Appended(base_offset, batch))
            self._uncommitted_bytes += size
        return self.end_offset - 1

    def _check_leads(self, epoch: int) -> None:
        if self._is_closed or self.quorum.leader_epoch != epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"this node does not lead in epoch {epoch}")

    def upgrade_kraft_version(self, epoch: int, kraft_version: int) -> None:
        """See `controller.store.ControllerStore`."""
        self._executor.step(Requested(None, UpgradeKraftVersion(epoch, kraft_version)))

    # Effects of the Raft node

    def send(self, to: int, message: object) -> None:
        if self.channel is not None and isinstance(message, OutboundRequest):
            self.channel.send(self.quorum, to, message)

    def reply(self, to: Hashable, message: object) -> None:
        if isinstance(to, Promise):
            to.set(self._with_content(message))
        else:
            # An append was refused, whose leadership was checked in the same step: a bug.
            self.fail(RuntimeError(f"an append of the leader was refused: {message}"))

    def _with_content(self, response: object) -> object:
        """Adds what only the files have: records, and bytes of a snapshot."""
        match response:
            case FetchResponse(read_from=int(offset)):
                return self._with_records(response, offset)
            case FetchSnapshotResponse(error=ErrorCode.NONE, snapshot=SnapshotId() as snapshot):
                chunk = self._folder.snapshots.read_chunk(snapshot, response.position, MAX_BATCH_BYTES)
                if chunk is None:
                    return replace(response, error=ErrorCode.SNAPSHOT_NOT_FOUND, snapshot=None)
                data, size = chunk
                if response.position >= size:
                    return replace(response, error=ErrorCode.POSITION_OUT_OF_RANGE, snapshot=None)
                return replace(response, size=size, data=data)
        return response

    def _with_records(self, response: FetchResponse, offset: int) -> FetchResponse:
        """The log may have changed since the decision, which waited for the disk."""
        raft, log = self.quorum, self._folder.log
        if raft.leader_epoch != response.leader.epoch:
            return FetchResponse(raft.quorum.leader, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if offset < log.log_start_offset:
            # Deleted after a snapshot: the follower's next fetch gets that.
            return response
        result = log.read(offset, MAX_BATCH_BYTES, upper_bound=raft.end_offset)
        return replace(response, records=result.slice)

    def apply(self, effect: object) -> None:
        """Called with a change of leader or high watermark."""
        try:
            match effect:
                case LeaderChanged(epoch, leader_id):
                    self._leader_changed(epoch, leader_id)
                case HighWatermark(high_watermark):
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
        self.on_leader_report(epoch, leader_id)
        if leader_id != NOBODY:
            self.on_leader_change()
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
        """Reports committed batches; then leadership, if this node has been elected."""
        for chunk, is_end in self._committed_chunks(high_watermark):
            for listener in self.listeners:
                if not self._is_closed:
                    listener.committed(chunk, is_end=is_end)
        if self._elected_epoch is not None and not self._is_closed:
            epoch, self._elected_epoch = self._elected_epoch, None
            self._reported_epoch = epoch
            logger.info("node %d leads the metadata quorum in epoch %d", self.quorum.me.id, epoch)
            # The controller is active before the node acts on it.
            for listener in reversed(self.listeners):
                listener.won(epoch)

    def _committed_chunks(self, high_watermark: int) -> Iterator[tuple[list[MetadataBatch], bool]]:
        """Yields unreported batches in chunks, and whether a chunk is the last one; it may be empty."""
        chunk: list[MetadataBatch] = []
        size = 0
        for batch in self._committed_batches(high_watermark):
            if size >= REPORT_CHUNK_BYTES:
                yield chunk, False
                chunk, size = [], 0
            chunk.append(batch)
            size += batch.size
            self._next_offset = batch.last_offset + 1
        yield chunk, True

    def _committed_batches(self, high_watermark: int) -> Iterator[MetadataBatch]:
        """Yields unreported batches, from memory if this leader appended them, else from the files."""
        if self._next_offset is not None and self._next_offset < self._folder.log.log_start_offset:
            # A snapshot was fetched and has replaced the log.
            for listener in self.listeners:
                listener.loading_snapshot()
            self._next_offset = None
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


def _no_report(epoch: int, leader_id: int) -> None:
    """Nobody keeps a timeline."""


def _nothing() -> None:
    """Without other nodes there is nobody to notify."""


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
