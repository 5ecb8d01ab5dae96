"""Moves replicas to another directory of the same broker (KIP-113, AlterReplicaLogDirs).

Contains the moves in progress, copying, and the switch to the copy; files belong in storage/.

The copy (future log) follows its own replica and is appended to in slices, between requests.  It takes over
when it has caught up and its records are flushed, so that the move makes no record less durable.  Interrupted
moves continue after a restart.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Protocol

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.broker.replicas.assignments_manager import AssignmentsManager
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replicas.replica_logs import AFTER_FAULT_MS, BETWEEN_SLICES_MS, ReplicaStorage
from barnabas.runtime.loop.timers import TimerService
from barnabas.storage.cleaner.cleaner import log_dir_of
from barnabas.storage.failure import StorageFailure
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_files import FUTURE_FOLDER
from barnabas.storage.log.names import TopicPartition

logger = logging.getLogger(__name__)

# Bytes that are copied between two reads of the clock, and how long copying may hold the loop.
PIECE_BYTES = 1 << 18
SLICE_NS = 5_000_000
# Retry interval while a copy waits for the device or a flush.
WAIT_MS = 20
FOLDER_NAME_BYTES = 255
# The unique suffix of a future directory: a dot and 32 digits.
UNIQUE_BYTES = 33


class Table(Protocol):
    """The replica manager as moves use it."""

    partitions: dict[tuple[str, int], Hosted]
    storage: ReplicaStorage
    assignments: AssignmentsManager

    def now_ns(self) -> int: ...

    def find(self, topic: str, index: int) -> Hosted: ...


class LogDirMoves:
    """All moves of one broker.  Runs on the event loop's thread."""

    def __init__(self, table: Table, timers: TimerService) -> None:
        self._table = table
        self._timers = timers
        # The offset up to which a copy must be flushed before it may take over.
        self._safe_from: dict[TopicPartition, int] = {}
        self._is_running = False

    def start(self) -> None:
        """Continues the moves of future logs that were found on disk."""
        self._is_running = True
        self._soon(0)

    def stop(self) -> None:
        self._is_running = False
        self._timers.cancel((self, "copy"))

    # Requests -----------------------------------------------------------------------------------------------

    def move(self, name: TopicPartition, path: str) -> None:
        """Starts a move; raises KafkaError if it is refused.  A move to the current directory cancels one."""
        manager = self._table.storage.manager
        if len(name.topic) + len(f"-{name.partition}{FUTURE_FOLDER}") + UNIQUE_BYTES > FOLDER_NAME_BYTES:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        path = self._known(path)
        if not manager.dirs.is_live(path):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory {path} is offline")
        current, future = manager.logs.get(name), manager.futures.get(name)
        hosted = self._table.partitions.get(name)
        if hosted is not None and hosted.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} is in a directory that is offline")
        if future is not None and log_dir_of(future) != path:
            manager.begin_delete(name, future=True)
            self._table.storage.finish_deletes()
            self._safe_from.pop(name, None)
            future = None
        if all(log is None or log_dir_of(log) != path for log in (current, future)):
            manager.prefer(name, path)
        if hosted is None or current is None:
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{name} has no replica here")
        if future is None and log_dir_of(current) != path:
            manager.get_or_create(name, topic_id=hosted.topic_id, future=True)
            self._table.storage.run_log_tasks_soon()
            logger.info("%s moves from %s to %s", name, log_dir_of(current), path)
        self._soon(0)

    def forget(self, name: TopicPartition) -> None:
        """Called when the replica is removed: removes its copy, too."""
        if name in self._table.storage.manager.futures:
            self._table.storage.manager.begin_delete(name, future=True)
        self._safe_from.pop(name, None)

    def _known(self, path: str) -> str:
        """Returns the directory as named in log.dirs: clients use absolute paths."""
        paths = self._table.storage.manager.dirs.paths
        return next((one for one in paths if os.path.abspath(one) == path), path)

    # Copying ------------------------------------------------------------------------------------------------

    def _soon(self, delay_ms: int) -> None:
        if self._is_running and self._table.storage.manager.futures:
            self._timers.set((self, "copy"), self._table.now_ns() + delay_ms * NS_PER_MS, self._copy)

    def _copy(self) -> None:
        """Runs a slice of work on all copies in turn."""
        until_ns = self._table.now_ns() + SLICE_NS
        wait_ms = AFTER_FAULT_MS
        try:
            for name in list(self._table.storage.manager.futures):
                for _ in self._steps(name):
                    if self._table.now_ns() >= until_ns:
                        wait_ms = BETWEEN_SLICES_MS
                        return
            wait_ms = WAIT_MS
        finally:
            self._soon(wait_ms)

    def _steps(self, name: TopicPartition) -> Iterator[None]:
        """Copies until the future log has caught up; then it takes over if it may."""
        manager = self._table.storage.manager
        while (future := manager.futures.get(name)) is not None:
            hosted, current = self._table.partitions.get(name), manager.logs.get(name)
            if hosted is None or current is None:
                return  # its own directory is offline: what the copy lacks is unknown
            if current.is_truncating or future.is_truncating or future.full is not None:
                return
            try:
                self._prepare(current, future)
                if not self._table.storage.may_take_gaps(future, current.gaps_end):
                    return
                if not self._copy_piece(hosted, current, future):
                    self._take_over(name, hosted, current, future)
                    return
            except StorageFailure as failure:
                manager.fail(failure.folder.rpartition("/")[0], failure)
                return
            yield

    def _prepare(self, current: Log, future: Log) -> None:
        if future.options is not current.options:
            future.set_options(current.options)
        if future.end_offset < current.log_start_offset:
            future.truncate_fully_to(current.log_start_offset, sync=False)

    def _copy_piece(self, hosted: Hosted, current: Log, future: Log) -> bool:
        """Copies the next chunk; returns False if there is none."""
        if future.end_offset >= current.end_offset:
            return False
        found = current.read(future.end_offset, PIECE_BYTES, upper_bound=current.end_offset)
        assert found.slice is not None, "there are records before the end"
        future.append_as_follower(bytearray(found.slice.read()), hosted.leader_epoch)
        return True

    def _take_over(self, name: TopicPartition, hosted: Hosted, current: Log, future: Log) -> None:
        safe_from = self._safe_from.setdefault(name, future.end_offset)
        storage = self._table.storage
        if future.recovery_point < safe_from:
            storage.flush(future)
            return
        if storage.is_deleting(name):
            return  # an earlier copy that is still in a checkpoint
        future.advance_high_watermark(min(current.high_watermark, future.end_offset))
        if current.log_start_offset > future.log_start_offset:
            future.advance_log_start(current.log_start_offset)
        storage.switch_to_future(name)
        self._safe_from.pop(name, None)
        hosted.log = future
        directory_id = storage.directory_id_of(future)
        if directory_id is not None:
            self._table.assignments.submit(hosted.topic_id, hosted.index, directory_id)
        logger.info("%s has moved from %s to %s", name, log_dir_of(current), log_dir_of(future))
