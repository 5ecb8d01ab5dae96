"""The scheduled background tasks of a broker's logs, run in small pieces, usually one log each.

It has no threads or timers: the broker's loop calls `run_due`, which does a bounded number of pieces and
returns how long to wait.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.runtime.loop.workers import WorkersBusyError
from barnabas.storage.cleaner.cleaner import log_dir_of
from barnabas.storage.directories.log_dir import LogDir
from barnabas.storage.directories.partition_metadata import write_partition_metadata_of
from barnabas.storage.failure import DirectoryFull, StorageFailure, refusing
from barnabas.storage.log.leader_epochs import EpochsWrite
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log.retention import expire
from barnabas.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

# The maximum number of pieces per call, so that the loop serves requests in between.
PIECES_PER_CALL = 16
# How long to sleep when nothing at all is scheduled.
LONGEST_SLEEP_MS = 60_000
# How long to wait when the workers' queue is full.
RETRY_MS = 100
# How often deletions scheduled outside of a task (truncation by a follower) are collected.
COLLECT_INTERVAL_MS = 30_000
# How often leader epochs that have changed are written, and of how many logs: each needs a sync, and a broker
# may become the leader of ten thousand partitions at once.
LEADER_EPOCHS_INTERVAL_MS = 500
LEADER_EPOCHS_AT_ONCE = 32

Piece = Callable[[], None]
Flush = Callable[[Log, int], None]
CheckpointPlan = Callable[[LogDir, Mapping[TopicPartition, Log]], Piece]
# A call to run, and the callback for its error (None on success).
Offload = Callable[[Callable[[], None], Callable[[BaseException | None], None]], None]


@dataclass(frozen=True, slots=True)
class LogTaskOptions:
    """How often each task runs; broker options of the names below with `_` for `.`."""

    log_flush_scheduler_interval_ms: int = 2**63 - 1
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    log_retention_check_interval_ms: int = 300_000
    log_segment_delete_delay_ms: int = 60_000
    log_initial_task_delay_ms: int = 30_000
    producer_id_expiration_check_interval_ms: int = 600_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000

    @classmethod
    def of(cls, broker: Mapping[str, Any]) -> LogTaskOptions:
        """From the broker's effective configuration."""
        values = {
            name: broker[name.replace("_", ".")]
            for name in cls.__dataclass_fields__
            if name.replace("_", ".") in broker
        }
        return cls(**values)


def _run_inline(call: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
    try:
        call()
    except Exception as error:
        done(error)
    else:
        done(None)


class LogTasks:
    """Runs the tasks of one LogManager.

    `flush` syncs a log up to an offset, `offload` runs a call that waits for the device and reports its
    outcome: a broker gives both to its workers.  By default both run on this thread.
    """

    def __init__(
        self,
        manager: LogManager,
        options: LogTaskOptions,
        *,
        flush: Flush = Log.flush,
        offload: Offload = _run_inline,
    ) -> None:
        self._manager = manager
        self._options = options
        self._flush = flush
        self._offload = offload
        # (Folder, kind) of the files that are being written.
        self._writing: set[tuple[str, str]] = set()
        # Files and folders to remove, one at a time: thousands must not block flushes on the workers.
        self._removals: deque[tuple[str, Piece]] = deque()
        self._is_removing = False
        # Logs whose leader epochs are being written.
        self.writing_epochs: set[Log] = set()
        self._epochs_due_ms = 0
        self._clock = manager.clock
        self._pieces: deque[Piece] = deque()
        # (due, tie-breaking number, interval, pieces of the task)
        self._schedule: list[tuple[int, int, int, Callable[[], Iterable[Piece]]]] = []
        # (due, tie-breaking number, piece) of one-time tasks.
        self._once: list[tuple[int, int, Piece]] = []
        self._number = 0

    def start(self) -> None:
        """Schedule the first run of each task after log.initial.task.delay.ms, as Apache Kafka does."""
        options = self._options
        first = self._now_ms() + options.log_initial_task_delay_ms
        self._every(options.log_retention_check_interval_ms, first, self._retention)
        self._every(options.log_flush_scheduler_interval_ms, first, self._flushes)
        self._every(options.log_flush_offset_checkpoint_interval_ms, first, self._recovery_points)
        self._every(options.log_flush_start_offset_checkpoint_interval_ms, first, self._log_starts)
        self._every(options.producer_id_expiration_check_interval_ms, first, self._producers)
        now = self._now_ms()
        self._every(options.replica_high_watermark_checkpoint_interval_ms, now, self._high_watermarks)
        self._every(min(COLLECT_INTERVAL_MS, max(options.log_segment_delete_delay_ms, 1)), now, self._collect)

    def _every(self, interval_ms: int, first_ms: int, task: Callable[[], Iterable[Piece]]) -> None:
        heapq.heappush(self._schedule, (first_ms, self._next_number(), interval_ms, task))

    def _at(self, due_ms: int, piece: Piece) -> None:
        heapq.heappush(self._once, (due_ms, self._next_number(), piece))

    def _after(self, delay_ms: int, piece: Piece) -> None:
        self._at(self._now_ms() + delay_ms, piece)

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // NS_PER_MS

    def run_due(self, pieces: int = PIECES_PER_CALL) -> int:
        """Run up to this many due pieces; returns the milliseconds until the next call."""
        self._take_up()
        for _ in range(min(pieces, len(self._pieces))):
            self._pieces.popleft()()
        return 0 if self._pieces else self._sleep_ms()

    def _take_up(self) -> None:
        now = self._now_ms()
        while self._schedule and self._schedule[0][0] <= now:
            _, _, interval_ms, task = heapq.heappop(self._schedule)
            self._pieces.extend(task())
            if interval_ms > 0:
                # Not before the last piece of this run.  With 0 or less it runs once, as in Apache Kafka.
                self._pieces.append(partial(self._every, interval_ms, now + interval_ms, task))
        while self._once and self._once[0][0] <= now:
            self._pieces.append(heapq.heappop(self._once)[2])
        unwritten: dict[str, list[tuple[str, Uuid]]] = {}
        for folder, topic_id in self._manager.take_unwritten_ids():
            unwritten.setdefault(folder.rpartition("/")[0], []).append((folder, topic_id))
        for log_dir, topic_ids in unwritten.items():
            self._pieces.append(partial(self._write_topic_ids, log_dir, topic_ids))
        if self._manager.logs_with_epochs and self._epochs_due_ms <= now:
            self._epochs_due_ms = now + LEADER_EPOCHS_INTERVAL_MS
            self._pieces.extend(self._leader_epochs())
        self._pieces.extend(self._folders_due())
        self._collect_deletes()

    def _sleep_ms(self) -> int:
        now = self._now_ms()
        due = [heap[0][0] - now for heap in (self._schedule, self._once) if heap]
        if self._manager.logs_with_epochs:
            due.append(self._epochs_due_ms - now)
        delay_ms = self._options.log_segment_delete_delay_ms
        due += [marked + delay_ms - self._clock.wall_ms() for marked, _ in self._manager.folders_to_delete]
        return max(0, min(due, default=LONGEST_SLEEP_MS))

    def _guarded(self, log_dir: str, action: Callable[[], object]) -> Piece:
        def piece() -> None:
            if log_dir in self._manager.live:
                with self._manager.guarding(log_dir):
                    action()

        return piece

    def _per_log(self, action: Callable[[Log], object]) -> Iterator[Piece]:
        for log in self._manager.all_logs():
            yield self._guarded(log_dir_of(log), partial(_unless_truncating, action, log))

    # The tasks

    def retain_now(self, done: Piece) -> None:
        """Run retention without waiting for its interval; `done` is called after the last log."""
        self._pieces.extend(self._retention())
        self._pieces.append(done)

    def _retention(self) -> Iterable[Piece]:
        """Retention of logs that are not compacted; the cleaner handles the others, to avoid conflicts."""
        return self._per_log(lambda log: None if log.options.cleanup_compact else self._expire(log))

    def _expire(self, log: Log) -> None:
        if expire(log, self._clock.wall_ms()):
            self._manager.logs_with_deletes.add(log)

    def _flushes(self) -> Iterable[Piece]:
        return self._per_log(self._flush_if_due)

    def _flush_if_due(self, log: Log) -> None:
        up_to = log.flush_wanted()
        if up_to is not None:
            self._flush(log, up_to)

    def _recovery_points(self) -> Iterable[Piece]:
        return self._checkpoints("recovery points", LogDir.plan_recovery_points)

    def _log_starts(self) -> Iterable[Piece]:
        return self._checkpoints("log starts", LogDir.plan_log_starts)

    def _high_watermarks(self) -> Iterable[Piece]:
        return self._checkpoints("high watermarks", LogDir.plan_high_watermarks)

    def _checkpoints(self, name: str, plan: CheckpointPlan) -> Iterable[Piece]:
        return [partial(self._checkpoint, log_dir, name, plan) for log_dir in self._manager.live]

    def _checkpoint(self, log_dir: str, name: str, plan: CheckpointPlan) -> None:
        directory = self._manager.live.get(log_dir)
        # Skip this time while the last write is still in progress.
        if directory is not None and (log_dir, name) not in self._writing:
            self._write(log_dir, (log_dir, name), plan(directory, self._manager.logs_in(log_dir)))

    def _leader_epochs(self) -> Iterable[Piece]:
        """One call of a worker for several logs; a flush may write the epochs of a log at the same time."""
        waiting = self._manager.logs_with_epochs
        by_dir: dict[str, list[tuple[Log, EpochsWrite]]] = {}
        for log in list(islice((log for log in waiting if log.full is None), LEADER_EPOCHS_AT_ONCE)):
            log_dir = log_dir_of(log)
            if (log_dir, "leader epochs") in self._writing or log.is_truncating:
                continue
            del waiting[log]
            write = None if log.is_closed else log.epochs.plan_write()
            if write is not None:
                by_dir.setdefault(log_dir, []).append((log, write))
        return [partial(self._write_leader_epochs, *each) for each in by_dir.items()]

    def _write_leader_epochs(self, log_dir: str, writes: Sequence[tuple[Log, EpochsWrite]]) -> None:
        key = (log_dir, "leader epochs")

        def done() -> None:
            self._writing.discard(key)
            for log, write in writes:
                self.writing_epochs.discard(log)
                log.epochs.written(write)

        def refused() -> None:
            self._writing.discard(key)
            for log, _ in writes:
                self.writing_epochs.discard(log)
                self._manager.logs_with_epochs[log] = None

        self._writing.add(key)
        self.writing_epochs.update(log for log, _ in writes)
        write = partial(_write_epochs, log_dir, [write for _, write in writes])
        self._hand_over(log_dir, write, done, refused)

    def _write_topic_ids(self, log_dir: str, topic_ids: Sequence[tuple[str, Uuid]]) -> None:
        """One call for all pending ids: ten thousand new partitions must not occupy every worker."""
        if (log_dir, "topic ids") in self._writing:
            # A partition may have been deleted and created again: the last id must win.
            self._after(RETRY_MS, partial(self._write_topic_ids, log_dir, topic_ids))
        else:
            write = partial(write_partition_metadata_of, self._manager.disk, log_dir, topic_ids)
            self._write(
                log_dir, (log_dir, "topic ids"), write, partial(self._manager.ids_not_written, topic_ids)
            )

    # Calls that wait for the device

    def _write(
        self, log_dir: str, key: tuple[str, str], write: Piece, not_written: Piece | None = None
    ) -> None:
        def done() -> None:
            self._writing.discard(key)

        def refused() -> None:
            done()
            if not_written is not None:
                not_written()

        self._writing.add(key)
        self._hand_over(log_dir, write, done, refused)

    def _hand_over(self, log_dir: str, call: Piece, done: Piece, refused: Piece | None = None) -> None:
        """Offload a call; retry a little later if the workers' queue is full.

        `refused` is called instead of `done` if there was no space, and nothing was changed.
        """

        def ended(error: BaseException | None) -> None:
            if isinstance(error, WorkersBusyError):
                self._after(RETRY_MS, partial(self._hand_over, log_dir, call, done, refused))
                return
            if isinstance(error, DirectoryFull) and refused is not None:
                refused()
            else:
                done()
            if isinstance(error, OSError | StorageFailure):
                self._manager.fail(log_dir, error)
            elif error is not None:
                raise error

        if log_dir in self._manager.live:
            self._offload(call, ended)
        else:
            done()

    def _remove_soon(self, log_dir: str, remove: Piece) -> None:
        self._removals.append((log_dir, remove))
        self._remove_next()

    def _remove_next(self) -> None:
        if self._removals and not self._is_removing:
            self._is_removing = True
            self._hand_over(*self._removals.popleft(), self._removed)

    def _removed(self) -> None:
        self._is_removing = False
        self._remove_next()

    def _producers(self) -> Iterable[Piece]:
        return self._per_log(lambda log: log.remove_expired_producers())

    def _collect(self) -> Iterable[Piece]:
        return self._per_log(self._manager.logs_with_deletes.add)

    def _collect_deletes(self) -> None:
        while self._manager.logs_with_deletes:
            log = self._manager.logs_with_deletes.pop()
            for deletion in log.take_file_deletions():
                self._at(deletion.due_ms, partial(self._remove_soon, log_dir_of(log), deletion.run))

    def _folders_due(self) -> Iterator[Piece]:
        """The folders of deleted partitions, after log.segment.delete.delay.ms."""
        before = self._clock.wall_ms() - self._options.log_segment_delete_delay_ms
        waiting = self._manager.folders_to_delete
        due = [folder for marked, folder in waiting if marked <= before]
        if due:
            waiting[:] = [(marked, folder) for marked, folder in waiting if marked > before]
        for folder in due:
            yield partial(self._remove_soon, folder.rpartition("/")[0], partial(self._remove, folder))

    def _remove(self, folder: str) -> None:
        self._manager.disk.remove_tree(folder)
        logger.info("deleted %s", folder)


def _unless_truncating(action: Callable[[Log], object], log: Log) -> None:
    """A log whose producers are being rebuilt is left for the next run."""
    if not log.is_truncating:
        action(log)


def _write_epochs(log_dir: str, writes: Sequence[EpochsWrite]) -> None:
    with refusing(log_dir, "writing leader epochs"):
        for write in writes:
            with contextlib.suppress(FileNotFoundError):  # renamed for deletion meanwhile
                write.run()
