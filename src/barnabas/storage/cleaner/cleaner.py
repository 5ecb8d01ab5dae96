"""The log cleaner: keeps the last value of each key in logs with cleanup.policy=compact (M-E3).

Contains the `cleaner-offset-checkpoint`, pausing, and marking a log as uncleanable.  The choice of the next
log belongs in cleaning_plan.py, the cleaning itself in cleaning_round.py.

It has no thread: `step()` does one slice of work and returns how long to wait before the next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from barnabas.base.errors import KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Disk
from barnabas.storage.cleaner.cleaning_plan import LogToClean, dirtiest, dirty_range, plan
from barnabas.storage.cleaner.cleaning_round import CleaningRound, RoundLimits, RoundStats
from barnabas.storage.directories.checkpoints import CLEANER_CHECKPOINT, OffsetCheckpoint
from barnabas.storage.failure import StorageFailure
from barnabas.storage.log.deferred_work import PendingSync
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log.retention import expire
from barnabas.storage.refused import DamagedFile, StorageRefused

logger = logging.getLogger(__name__)

MAX_DEDUPE_BYTES = 2**31 - 1
# Steps no larger than this: some hundred records, a third of a millisecond of work.
MAX_PIECE_BYTES = 64 * 1024
MIN_PIECE_BYTES = 4096
Piece = Callable[[], None]
# What a step returns instead of a number of bytes if no log is due.
IDLE = -1


@dataclass(frozen=True, slots=True)
class CleanerOptions:
    """The broker's `log.cleaner.*` options."""

    enable: bool = True
    dedupe_buffer_size: int = 128 << 20
    io_buffer_size: int = 512 << 10
    io_buffer_load_factor: float = 0.9
    io_max_bytes_per_second: float = float("inf")
    backoff_ms: int = 15_000

    @classmethod
    def of(cls, broker: Mapping[str, Any]) -> CleanerOptions:
        """From the broker's effective configuration."""
        values = {
            name: broker[f"log.cleaner.{name.replace('_', '.')}"]
            for name in cls.__dataclass_fields__
            if f"log.cleaner.{name.replace('_', '.')}" in broker
        }
        return cls(**values)

    @property
    def limits(self) -> RoundLimits:
        # Half of the buffer is for reading, half for writing.
        piece = max(MIN_PIECE_BYTES, min(self.io_buffer_size // 2, MAX_PIECE_BYTES))
        limits = RoundLimits(
            min(self.dedupe_buffer_size, MAX_DEDUPE_BYTES), self.io_buffer_load_factor, piece
        )
        if limits.max_entries < 1:
            raise StorageRefused(
                f"log.cleaner.dedupe.buffer.size={self.dedupe_buffer_size} with"
                f" log.cleaner.io.buffer.load.factor={self.io_buffer_load_factor} has no room for a single"
                " key: raise one of them"
            )
        return limits


class LogCleaner:
    """Cleans the logs that `logs` returns, one at a time."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        options: CleanerOptions,
        logs: Mapping[TopicPartition, Log],
        *,
        on_failure: Callable[[str, Exception], None],
        on_deletes: Callable[[Log], None] = lambda log: None,
        plan_gaps: Callable[[str], Piece] = lambda log_dir: _nothing,
        is_full: Callable[[str], bool] = lambda log_dir: False,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._options = options
        self._limits = options.limits
        self._logs = logs
        self._on_failure = on_failure
        self._on_deletes = on_deletes
        self._plan_gaps = plan_gaps
        # Whether a directory has no space: compaction needs some before it frees any.
        self._is_full = is_full
        self._checkpoints: dict[str, OffsetCheckpoint] = {}
        self._clean_up_to: dict[str, dict[TopicPartition, int]] = {}
        self._paused: dict[TopicPartition, int] = {}
        self._uncleanable: set[TopicPartition] = set()
        self._cleaning: TopicPartition | None = None
        self._work: Generator[int] | None = None
        self._round: CleaningRound | None = None
        # Directories whose checkpoint is out of date.
        self._unwritten: set[str] = set()
        self._checkpoint_sync: PendingSync | None = None
        self._in_step = False
        self._resume_at_ns = 0
        # Statistics of the last completed round, and the dirtiest ratio when its log was chosen.
        self.last_stats: RoundStats | None = None
        self.dirtiest_ratio = 0.0
        self.longest_overdue_ms = 0

    # Directories and their checkpoints

    def add_dir(self, log_dir: str) -> None:
        """Read the cleaner checkpoint of a directory; if it is damaged, clean its logs from the start."""
        checkpoint = OffsetCheckpoint(self._disk, log_dir, CLEANER_CHECKPOINT)
        checkpoint.create()
        try:
            self._clean_up_to[log_dir] = checkpoint.read()
        except DamagedFile as damage:
            logger.warning("%s; its logs are cleaned from their start", damage)
            self._clean_up_to[log_dir] = {}
            checkpoint.write({})
        self._checkpoints[log_dir] = checkpoint

    def remove_dir(self, log_dir: str) -> None:
        """Stop cleaning the logs of a failed directory."""
        self._checkpoints.pop(log_dir, None)
        self._clean_up_to.pop(log_dir, None)
        self._unwritten.discard(log_dir)
        if self._cleaning is not None and self._dir_of(self._cleaning) in (None, log_dir):
            self._abandon()

    def _dir_of(self, partition: TopicPartition) -> str | None:
        log = self._logs.get(partition)
        return None if log is None else log_dir_of(log)

    def clean_up_to(self, partition: TopicPartition) -> int | None:
        """The checkpointed offset up to which a partition is clean."""
        return next((d[partition] for d in self._clean_up_to.values() if partition in d), None)

    def _note(self, log_dir: str, partition: TopicPartition, offset: int | None) -> None:
        """Set or (None) remove a partition's entry.  Also removes entries of logs that no longer exist."""
        kept = {tp: at for tp, at in self._known(log_dir).items() if tp in self._logs and tp != partition}
        if offset is not None:
            kept[partition] = offset
        self._keep(log_dir, kept)

    def _known(self, log_dir: str) -> dict[TopicPartition, int]:
        return self._clean_up_to.get(log_dir, {})

    def _keep(self, log_dir: str, kept: dict[TopicPartition, int]) -> None:
        if log_dir in self._clean_up_to and kept != self._clean_up_to[log_dir]:
            self._clean_up_to[log_dir] = kept
            self._unwritten.add(log_dir)

    def has_unwritten(self, log_dir: str) -> bool:
        """Whether `plan_checkpoint` has anything to write."""
        return log_dir in self._unwritten

    def plan_checkpoint(self, log_dir: str) -> Piece:
        """A call that writes the changes by cleaning and by the four methods below; waits for the device."""
        if log_dir not in self._unwritten:
            return _nothing
        self._unwritten.discard(log_dir)
        write = self._checkpoints[log_dir].plan(self._clean_up_to[log_dir])

        def checkpoint() -> None:
            try:
                write()
            except BaseException:
                if log_dir in self._checkpoints:
                    self._unwritten.add(log_dir)
                raise

        return checkpoint

    def forget(self, partition: TopicPartition, log_dir: str) -> None:
        """Stop cleaning a deleted partition and remove its entry.  Call `plan_checkpoint` afterwards."""
        self._leave(partition)
        self._uncleanable.discard(partition)
        self._note(log_dir, partition, None)

    def forget_gone(self, log_dir: str) -> None:
        """Remove the entries of logs that are not in this directory; call it when all of them are open."""
        here = {tp: at for tp, at in self._known(log_dir).items() if self._dir_of(tp) == log_dir}
        self._keep(log_dir, here)

    def moved(self, partition: TopicPartition, old_dir: str, new_dir: str) -> None:
        """Move the entry of a partition that changed directories.  Call `plan_checkpoint` afterwards."""
        self._leave(partition)
        offset = self._known(old_dir).get(partition)
        if offset is not None:
            self._note(old_dir, partition, None)
            self._note(new_dir, partition, offset)

    def truncated(self, partition: TopicPartition, log_dir: str, offset: int) -> None:
        """Limit the entry of a truncated log to this offset.  Call `plan_checkpoint` afterwards."""
        clean = self._known(log_dir).get(partition)
        if clean is not None and clean > offset:
            self._note(log_dir, partition, offset)

    # Pausing

    def is_cleaning(self, partition: TopicPartition) -> bool:
        return self._cleaning == partition

    @property
    def log_at_work(self) -> Log | None:
        """The log that is being cleaned."""
        return None if self._round is None else self._round.target.log

    def cancel(self, partition: TopicPartition) -> None:
        """Stop the cleaning of a partition; a swap in progress is completed first.

        The partition may be chosen again.  Never waits for the device.
        """
        if self._cleaning == partition and self._round is not None and self._round.is_swapping:
            self._round.is_cancelled = True
        else:
            self._end(partition)

    def abort(self, partition: TopicPartition) -> None:
        """`cancel`, but cleaning has stopped when this returns: a swap in progress is completed here."""
        self._end(partition)

    def _leave(self, partition: TopicPartition) -> None:
        """Stop cleaning a partition whose folder is about to be deleted, without completing a swap."""
        if self._round is not None and self._cleaning == partition:
            self._round.is_abandoned = True
        self._end(partition)

    def _end(self, partition: TopicPartition) -> None:
        if self._cleaning == partition:
            self._abandon()

    def pause(self, partition: TopicPartition) -> None:
        """Stop cleaning a partition until every pause is resumed."""
        self.abort(partition)
        self._paused[partition] = self._paused.get(partition, 0) + 1

    def resume(self, partition: TopicPartition) -> None:
        count = self._paused.get(partition, 0)
        if count == 0:
            raise ValueError(f"the cleaning of {partition} is not paused")
        if count == 1:
            del self._paused[partition]
        else:
            self._paused[partition] = count - 1

    def _abandon(self) -> None:
        """Drop the current round.  If called from within its own step, it ends with that step."""
        work, self._work, self._cleaning = self._work, None, None
        if work is not None and not self._in_step:
            work.close()

    def stop(self) -> None:
        """Drop the current round: the broker is shutting down."""
        log_dir = None if self._cleaning is None else self._dir_of(self._cleaning)
        try:
            self._abandon()
        except (OSError, StorageFailure) as error:
            if log_dir is None:
                raise
            self._on_failure(log_dir, error)

    @property
    def uncleanable(self) -> frozenset[TopicPartition]:
        """Partitions whose cleaning failed: skipped until the next start."""
        return frozenset(self._uncleanable)

    # Working

    def step(self) -> int:
        """Do one slice of work; returns the milliseconds to wait before the next call (0: at once)."""
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._resume_at_ns:
            return _to_ms(self._resume_at_ns - now_ns)
        moved = self._advance()
        if moved == IDLE:
            delay_ns = self._options.backoff_ms * NS_PER_MS
        else:
            delay_ns = int(moved * 1e9 / self._options.io_max_bytes_per_second)
        self._resume_at_ns = now_ns + delay_ns
        return _to_ms(delay_ns)

    @property
    def pending_sync(self) -> PendingSync | None:
        """The sync to run before the next step.  A broker runs it on a worker; otherwise that step does."""
        return self._checkpoint_sync if self._round is None else self._round.sync

    def _advance(self) -> int:
        if self._work is None:
            self._work = self._rounds()
        work = self._work
        self._in_step = True
        try:
            moved = next(work, None)
        finally:
            self._in_step = False
        if self._work is not work:
            work.close()
        elif moved is None:
            self._work = None
        return 0 if moved is None else moved

    def _rounds(self) -> Generator[int]:
        """Clean one log, then run retention on compacted logs; IDLE if no log is due."""
        target = self._choose()
        if target is not None:
            yield from self._clean(target)
        for log_dir in list(self._unwritten):
            yield from self._write_checkpoint(log_dir)
        for partition, log in list(self._logs.items()):
            if log.options.cleanup_compact and self._may_touch(partition) and partition in self._logs:
                self._expire(log)
                yield 0
        self._uncleanable &= self._logs.keys()
        if target is None:
            yield IDLE

    def _write_checkpoint(self, log_dir: str) -> Iterator[int]:
        self._checkpoint_sync = sync = PendingSync(self.plan_checkpoint(log_dir))
        yield 0
        self._checkpoint_sync = None
        try:
            sync.finish()
        except (OSError, StorageFailure) as error:
            self._on_failure(log_dir, error)

    def _may_touch(self, partition: TopicPartition) -> bool:
        return partition not in self._paused and partition not in self._uncleanable

    def _choose(self) -> LogToClean | None:
        """The dirtiest of the logs that are due."""
        now_ms = self._clock.wall_ms()
        candidates = []
        for partition, log in list(self._logs.items()):
            if self._is_full(log_dir_of(log)):
                continue
            if log.options.cleanup_compact and self._may_touch(partition) and partition in self._logs:
                candidate = self._plan(partition, log, now_ms)
                if candidate is not None and candidate.total_bytes > 0:
                    candidates.append(candidate)
        # A directory may have failed while one of its logs was examined.
        candidates = [candidate for candidate in candidates if candidate.partition in self._logs]
        self.dirtiest_ratio = max((c.dirty_ratio for c in candidates), default=0.0)
        self.longest_overdue_ms = max((c.overdue_ms for c in candidates), default=0)
        return dirtiest(candidates)

    def _plan(self, partition: TopicPartition, log: Log, now_ms: int) -> LogToClean | None:
        log_dir = log_dir_of(log)
        try:
            dirty = dirty_range(log, self._clean_up_to.get(log_dir, {}).get(partition), now_ms)
            if dirty.correct_checkpoint:
                self._note(log_dir, partition, dirty.first_dirty_offset)
            return plan(log, dirty, now_ms)
        except (OSError, StorageFailure) as error:
            self._on_failure(log_dir, error)
        except (KafkaError, ValueError) as error:
            self._give_up(partition, error)
        return None

    def _clean(self, target: LogToClean) -> Iterator[int]:
        log, log_dir = target.log, log_dir_of(target.log)
        self._cleaning = target.partition
        self._round = work = CleaningRound(
            target, self._limits, self._clock.wall_ms(), partial(self._plan_gaps, log_dir)
        )
        try:
            yield from work.steps()
            if work.is_cancelled:
                return
            self._note(log_dir, target.partition, work.stats.end_offset)
            yield from work.wait_for(self.plan_checkpoint(log_dir))
        except (OSError, StorageFailure) as error:
            self._on_failure(log_dir, error)
        except (KafkaError, ValueError, OverflowError) as error:
            self._give_up(target.partition, error)
        else:
            self.last_stats = work.stats
            _report(target, work.stats)
        finally:
            self._cleaning = self._round = None
            self._on_deletes(log)

    def _expire(self, log: Log) -> None:
        try:
            if expire(log, self._clock.wall_ms()):
                self._on_deletes(log)
        except (OSError, StorageFailure) as error:
            self._on_failure(log_dir_of(log), error)

    def _give_up(self, partition: TopicPartition, error: Exception) -> None:
        logger.warning("%s cannot be cleaned and is left unchanged: %s", partition, error)
        self._uncleanable.add(partition)


def _nothing() -> None:
    """Does nothing: there is nothing to write."""


def log_dir_of(log: Log) -> str:
    """The log directory of a log's folder."""
    return log.folder.rpartition("/")[0]


def _to_ms(nanoseconds: int) -> int:
    return -(-nanoseconds // NS_PER_MS)


def _report(target: LogToClean, stats: RoundStats) -> None:
    logger.info(
        "cleaned %s from offset %d to %d: %d of %d records kept, %d of %d bytes, %d segments became %d",
        target.partition,
        target.first_dirty_offset,
        stats.end_offset,
        stats.records_kept,
        stats.records_read,
        stats.bytes_written,
        stats.bytes_read,
        stats.segments_before,
        stats.segments_after,
    )
    if stats.keyless_records:
        logger.warning(
            "%s has %d records without a key; they were removed", target.partition, stats.keyless_records
        )
