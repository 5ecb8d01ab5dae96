"""A partition's log: append, read, truncate.

Contains the offsets of a log (log start, last stable, high watermark, log end) and how each operation moves
them together with the producer state and the leader epochs.  Files belong in local_log.py, validation of
batches in appends.py, loading and recovery in recovery.py; leadership, followers and the ISR in replica/.

A log is used by one thread.  A flush may run on another: see `plan_flush`.  An OSError that cannot be undone
becomes a StorageFailure, after which the directory must not be used.  Lack of space that is undone is a
DirectoryFull: nothing is appended until the log manager clears `full`.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator, Sequence

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.check import NOT_EXAMINED
from barnabas.batch.view import BatchHeader
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Buffer, Disk
from barnabas.runtime.random import Random
from barnabas.storage.failure import StorageFailure, failing, has_no_space, refusal
from barnabas.storage.log import log_files
from barnabas.storage.log.appends import AppendResult, prepare_as_is, prepare_leader, rules_of
from barnabas.storage.log.checked_append import append_prepared
from barnabas.storage.log.deferred_work import FileDeletion, FlushPlan
from barnabas.storage.log.leader_epochs import EpochEnd
from barnabas.storage.log.local_log import LocalLog, jitter_ms
from barnabas.storage.log.log_options import LONG_MAX, LogOptions
from barnabas.storage.log.log_reader import ReadResult, TimestampAndOffset
from barnabas.storage.log.plain_append import append_plain, plain_rules
from barnabas.storage.log.recovery import LoadedLog, LogLoader
from barnabas.storage.log.truncation import Step, truncate, truncate_fully
from barnabas.storage.producers.producer_append import AppendOrigin, Verification
from barnabas.storage.progress import Watch, unwatched
from barnabas.storage.segment.segment import Segment
from barnabas.storage.segment.transaction_index import AbortedTransaction

logger = logging.getLogger(__name__)


class Log:
    """One partition's log in one folder (Apache Kafka's UnifiedLog).

    `local` has its files, `segments` its batches, `producers` the producer state, `epochs` the leader epochs.
    """

    def __init__(
        self, disk: Disk, clock: Clock, random: Random, folder: str, options: LogOptions, loaded: LoadedLog
    ) -> None:
        self.disk = disk
        self.clock = clock
        self.local = LocalLog(disk, clock, random, folder, options, loaded)
        self.topic, self.partition = log_files.parse_folder(self.local.name)
        self.segments = loaded.segments
        self.producers = loaded.producers
        self.epochs = loaded.epochs
        self._reader = self.local.reader
        self.end_offset = loaded.end_offset
        self.log_start_offset = loaded.log_start_offset
        self.high_watermark = self.log_start_offset
        self.first_unstable_offset: int | None = None
        # Compaction may have left offset gaps below this offset.  A gap before a batch that starts beyond it
        # means lost records.  It is raised, durably, before a gap is made (`gap-offset-checkpoint`): the
        # topic's current cleanup.policy says nothing about gaps made under an earlier one.
        self.gaps_end = loaded.gaps_end
        # A truncation has begun and not ended: its producers are incomplete.
        self.is_truncating = False
        # Called before the first gap: raises `gaps_end` and checkpoints it, or raises GapNotNoted.
        self.on_gap: Callable[[Log], None] = _not_noted
        # Why nothing is appended: its directory has no space.
        self.full: str | None = None
        self._rules = rules_of(options)
        self.plain_rules = plain_rules(options, self._rules)
        self.find_first_unstable()

    @classmethod
    def open(
        cls,
        disk: Disk,
        clock: Clock,
        folder: str,
        options: LogOptions,
        *,
        random: Random,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
        high_watermark: int | None = None,
        gaps_end: int = LONG_MAX,
        watch: Watch = unwatched,
    ) -> Log:
        """Open or create the log in `folder`; after an unclean shutdown, recover it from the recovery point.

        The offsets come from the checkpoints; the high watermark serves for comparison only.
        """
        name = folder.rpartition("/")[2]
        log_files.parse_folder(name)  # raises before anything is changed
        loader = LogLoader(
            disk,
            clock,
            folder,
            name,
            options,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
            gaps_end=gaps_end,
            jitter_ms=lambda: jitter_ms(options, random),
            watch=watch,
        )
        try:
            with failing(folder, "opening the log"):
                return cls(disk, clock, random, folder, options, loader.load())
        except BaseException:
            loader.release()
            raise

    def __repr__(self) -> str:
        return f"Log({self.name}, {self.log_start_offset}..{self.end_offset}, hw {self.high_watermark})"

    def set_options(self, options: LogOptions) -> None:
        """Called when the topic's configuration has changed."""
        self.local.options = options
        self.segments.last.limits = None
        self._rules = rules_of(options)
        self.plain_rules = plain_rules(options, self._rules)

    # Appending

    def append_as_leader(
        self,
        buffer: Buffer,
        leader_epoch: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification: Verification | None = None,
    ) -> AppendResult:
        """Validate the batches, assign offsets and write them.  A rejected append changes nothing in the log.

        The buffer is updated in place where possible.
        """
        now_ms = self.clock.wall_ms()
        if origin is AppendOrigin.RAFT_LEADER:
            limit = self.options.max_message_bytes
            prepared = prepare_as_is(buffer, leader_epoch, self.end_offset, origin, self.name, limit)
        else:
            found = append_plain(self, buffer, leader_epoch, now_ms) if self.full is None else NOT_EXAMINED
            if isinstance(found, AppendResult):
                return found
            prepared = prepare_leader(
                buffer, leader_epoch, self.end_offset, origin, self._rules, now_ms, found
            )
        return append_prepared(self, prepared, origin, verification, now_ms)

    def not_appended(self, error: OSError) -> StorageFailure:
        """The exception for an append or a roll that failed and was undone.

        A power loss could bring back whole batches of it under the epoch of the next ones, or the file of a
        new segment: nothing is appended before a flush has synced this (`LocalLog.is_tail_unsynced`).
        """
        if has_no_space(error):
            self.full = str(error.strerror)
            self.local.tail_undone()
        return refusal(self.folder, "appending", error)

    def append_as_follower(self, buffer: Buffer, leader_epoch: int) -> AppendResult:
        """Write batches fetched from the leader of this epoch; an incomplete batch at the end is skipped.

        More than a segment may hold, as the leader's segment.bytes was larger, is written in parts.
        """
        origin = AppendOrigin.REPLICATION
        prepared = prepare_as_is(buffer, leader_epoch, self.end_offset, origin, self.name, None)
        if prepared is not None:
            part_end = prepared.end_within(self.options.segment_bytes)
            if part_end < len(prepared.data):
                first = self.append_as_follower(memoryview(buffer)[:part_end], leader_epoch)
                return first.followed_by(self.append_as_follower(memoryview(buffer)[part_end:], leader_epoch))
            self._note_gaps(prepared.headers)
        return append_prepared(self, prepared, origin, None, self.clock.wall_ms())

    def _note_gaps(self, headers: Sequence[BatchHeader]) -> None:
        """A compacted leader's batches have offset gaps: after the first gap, any offset may be missing."""
        following = self.end_offset
        for header in headers:
            if header.base_offset > max(following, self.gaps_end):
                self.on_gap(self)
                return
            following = header.last_offset + 1

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool = False
    ) -> Verification | None:
        """Start the verification of a producer's transaction with its coordinator; None if none is needed.

        None is needed if the transaction is known to be open, nor, with
        transaction.partition.verification.enable=false, for producers that add their partitions themselves
        (before transaction.version 2).
        """
        if not supports_epoch_bump and not self.options.transaction_partition_verification_enable:
            return None
        now_ms = self.clock.wall_ms()
        return self.producers.start_verification(producer_id, sequence, epoch, supports_epoch_bump, now_ms)

    # Offsets

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset: read_committed consumers read up to it."""
        first = self.first_unstable_offset
        return first if first is not None and first < self.high_watermark else self.high_watermark

    def set_high_watermark(self, offset: int) -> int:
        """Set the high watermark, limited to the log's bounds; returns the value set."""
        self.high_watermark = min(max(offset, self.log_start_offset), self.end_offset)
        self.producers.on_high_watermark(self.high_watermark)
        self.find_first_unstable()
        return self.high_watermark

    def advance_high_watermark(self, offset: int) -> bool:
        """Advance the high watermark, never backwards; returns whether it moved."""
        if offset > self.end_offset:
            raise ValueError(
                f"{self.name}: high watermark {offset} is beyond the log end offset {self.end_offset}"
            )
        if offset <= self.high_watermark:
            return False
        if self.first_unstable_offset is None:
            self.high_watermark = offset  # no transaction depends on it
        else:
            self.set_high_watermark(offset)
        return True

    def advance_log_start(self, offset: int) -> bool:
        """Advance the log start offset; returns whether it moved."""
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.name}"
                f" since it is larger than the high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        with failing(self.folder, "moving the log start"):
            self.epochs.truncate_from_start(offset)
        self.producers.on_log_start(offset)
        self.find_first_unstable()
        return True

    def find_first_unstable(self) -> None:
        """Called when a transaction began or ended, or when its marker was replicated."""
        first = self.producers.first_unstable_offset
        self.first_unstable_offset = None if first is None else max(first, self.log_start_offset)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Record the start offset of a leader epoch."""
        with failing(self.folder, "writing the leader epochs"):
            self.epochs.assign(epoch, start_offset)

    @property
    def latest_epoch(self) -> int | None:
        """The last leader epoch with an entry; None if there is none."""
        return self.epochs.latest_epoch

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        return self.epochs.end_offset_for(epoch, self.end_offset)

    # Reading

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
        """Read from the batch that contains `offset`: at most max_bytes of one segment, below the bound.

        With min_one_batch the first batch is returned whole even if it is larger (KIP-74).  Batches written
        before this start are checked on their first read: unless `may_wait`, a range that must be read from
        the device for that is returned as `cold`, for another thread to read first.
        """
        if not self.log_start_offset <= offset <= self.end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.name} has offsets {self.log_start_offset} to {self.end_offset}, not {offset}",
            )
        try:
            return self._reader.read(
                offset,
                max_bytes,
                self.end_offset,
                min(upper_bound, self.end_offset),
                min_one_batch=min_one_batch,
                read_committed=read_committed,
                may_wait=may_wait,
            )
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                # The directory has not failed: the client retries.
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{self.name}: too many open files; raise the limit (ulimit -n) and restart",
                ) from error
            raise StorageFailure(self.folder, "reading", error) from error

    def aborted_transactions(self, start: int, upper_bound: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap [start, upper_bound)."""
        segment = self.segments.floor(start) or self.segments[0]
        return self._reader.aborted_between(segment, start, upper_bound)

    def offset_for_time(self, timestamp: int) -> TimestampAndOffset | None:
        """The first offset at or after a timestamp, or for a special timestamp; None if there is none."""
        with failing(self.folder, "searching by time"):
            return self._reader.offset_for_time(
                timestamp, self.log_start_offset, self.end_offset, self.epochs
            )

    # Truncating

    def truncate_to(self, offset: int) -> bool:
        """Truncate the log to this offset; returns whether anything was removed."""
        before = self.end_offset
        for _ in self.truncation(offset):
            pass
        return self.end_offset != before

    def truncation(self, offset: int) -> Iterator[Step]:
        """`truncate_to` in steps, for a thread that must not wait for the device."""
        if offset < 0:
            raise ValueError(f"{self.name}: cannot truncate to the negative offset {offset}")
        return truncate(self, offset)

    def truncate_fully_to(
        self, offset: int, *, log_start_offset: int | None = None, sync: bool = True
    ) -> None:
        """Remove all records and restart the log at this offset.

        Without `sync` a power loss before the next flush may bring removed records back; this is for copies,
        which are not used before they are flushed.
        """
        for _ in self.full_truncation(offset, log_start_offset=log_start_offset, sync=sync):
            pass

    def full_truncation(
        self, offset: int, *, log_start_offset: int | None = None, sync: bool = True
    ) -> Iterator[Step]:
        """`truncate_fully_to` in steps."""
        return truncate_fully(
            self, offset, offset if log_start_offset is None else log_start_offset, sync=sync
        )

    def cut_back(self, offset: int) -> None:
        """Called in a truncation: cached positions and planned flushes are invalid."""
        self.local.cut_back(offset)
        self.end_offset = offset
        self.gaps_end = min(self.gaps_end, offset)

    # Retention

    def remove_segments(self, segments: Sequence[Segment], reason: str) -> int:
        """Delete the oldest segments, for retention; if all are deleted, the log is rolled first.

        The files are renamed `.deleted`, and removed when their deletion from `take_delete_jobs` runs.
        """
        if not segments:
            return 0
        with failing(self.folder, "removing segments"):
            logger.info("%s: deleting %d segments because %s", self.name, len(segments), reason)
            refused = self._roll_to_remove_all() if len(segments) == len(self.segments) else None
            going = [segment for segment in segments if segment is not self.active]
            if going:
                following = self.segments.after(going[-1])
                assert following is not None, "the active segment stays"
                self.advance_log_start(following.base_offset)
                self.local.retire(going)
            if refused is not None:
                raise refused
            return len(segments)

    def _roll_to_remove_all(self) -> StorageFailure | None:
        """Without space for a new segment the active one stays; the others go, and give space."""
        try:
            self.roll_at(self.end_offset)
        except OSError as error:
            if not has_no_space(error):
                raise
            return self.not_appended(error)
        return None

    # Files

    @property
    def folder(self) -> str:
        return self.local.folder

    @property
    def name(self) -> str:
        """The folder's name: the partition's, unless the log is a future log or being deleted."""
        return self.local.name

    @property
    def options(self) -> LogOptions:
        return self.local.options

    @property
    def active(self) -> Segment:
        return self.segments.last

    @property
    def size(self) -> int:
        """The size of all batches in bytes."""
        return self.segments.size

    @property
    def is_closed(self) -> bool:
        return self.local.is_closed

    def roll(self) -> Segment:
        """Roll to a new segment at the log end offset; an empty active segment is kept."""
        try:
            return self.roll_at(self.end_offset)
        except OSError as error:
            raise self.not_appended(error) from error

    def roll_at(self, expected_offset: int) -> Segment:
        """Roll for batches from this offset on."""
        return self.local.roll(max(expected_offset, self.end_offset))

    def take_file_deletions(self) -> list[FileDeletion]:
        """The deletions scheduled since the last call, by retention, truncation, cleaning or recovery."""
        return self.local.take_file_deletions()

    def rename_folder(self, name: str, *, sync: bool = True) -> None:
        """Rename to `topic-partition.<hex>-delete` or similar, or (a future log) to `topic-partition`."""
        self.local.rename_folder(name, sync=sync)

    def close(self, *, sync: bool = True) -> None:
        """Clean close; flush first.  Without `sync` the caller syncs the folder, then calls `all_synced`."""
        self.local.close(sync=sync)

    def all_synced(self) -> None:
        """Called when everything written to the log's folder is synced."""
        self.local.all_synced(self.end_offset)

    def abandon(self) -> None:
        """Close all files without writing: the directory has failed."""
        self.local.abandon()

    def delete(self) -> None:
        """Close all files and delete the folder with its content."""
        self.local.delete()

    # Flushing

    @property
    def recovery_point(self) -> int:
        """Everything before this offset is on stable storage."""
        return self.local.recovery_point

    @property
    def restart_point(self) -> int:
        """The recovery point to checkpoint; see LocalLog."""
        return self.local.restart_point

    @property
    def is_closed_part_unflushed(self) -> bool:
        return self.local.is_closed_part_unflushed

    def flush_wanted(self) -> int | None:
        """The offset up to which a flush is due, by flush.messages, flush.ms or a roll; None if none is."""
        return self.local.flush_wanted(self.end_offset)

    def plan_flush(self, up_to: int | None = None) -> FlushPlan | None:
        """What to sync so that the log is durable up to this offset (default: its end); None if nothing.

        `plan.run()` may run on any thread; afterwards call `flushed(plan)` here and then `plan.close()`.
        """
        return self.local.plan_flush(self.end_offset if up_to is None else min(up_to, self.end_offset))

    def flushed(self, plan: FlushPlan) -> None:
        """Called when the plan has run: everything below its offset is durable."""
        self.local.flushed(plan)

    def flush(self, up_to: int | None = None) -> None:
        """Plan, run and complete a flush on this thread."""
        plan = self.plan_flush(up_to)
        if plan is not None:
            try:
                plan.run()
                self.flushed(plan)
            finally:
                plan.close()

    # Producers

    def remove_expired_producers(self) -> None:
        """Called every producer.id.expiration.check.interval.ms."""
        self.producers.remove_expired(self.clock.wall_ms())

    def last_records_of_producers(self) -> dict[int, tuple[int | None, int]]:
        """Producer id -> (last data offset, epoch): compaction keeps at least these batches' headers."""
        return {
            producer_id: (entry.last_data_offset, entry.epoch)
            for producer_id, entry in self.producers.entries.items()
        }


def _not_noted(log: Log) -> None:
    """For a log without a manager: the next open does not know its gaps, and accepts them."""
    log.gaps_end = LONG_MAX
