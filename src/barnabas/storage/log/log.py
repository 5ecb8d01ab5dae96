"""A partition's log: appending to it, reading from it, cutting it.

What lives here: the offsets of a log (start, stable, high watermark, end) and how each operation moves them,
and its producers and leader epochs with them.  What may not: its files (local_log.py), what a buffer must
look like (appending.py), how a folder is brought into shape (recovery.py), and leadership, followers and the
ISR (replica/).

A log is used by one thread.  A flush may run on another: see `plan_flush`.  An OSError that cannot be undone
becomes a StorageFailure, after which the directory is not to be used.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Sequence

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.view import BatchHeader
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Buffer, Disk
from barnabas.runtime.random import Random
from barnabas.storage.failure import StorageFailure, failing
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
from barnabas.storage.producers.producer_append import AppendOrigin, Verification
from barnabas.storage.producers.producer_replay import rebuild_producers
from barnabas.storage.progress import Watch, unwatched
from barnabas.storage.segment.segment import Segment
from barnabas.storage.segment.transaction_index import AbortedTransaction

logger = logging.getLogger(__name__)


class Log:
    """One partition's log in one folder (Apache Kafka's UnifiedLog).

    `local` are its files, `segments` the batches in them, `producers` and `epochs` what is known of who wrote
    them.
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
        # Where the next batch begins beyond this offset, no offset may be missing before it: one that is was
        # lost.  Before it compaction has been, or may have been.  It is raised, lastingly, before a gap is
        # made (`gap-offset-checkpoint`): the topic's policy of today says nothing about yesterday's gaps.
        self.gaps_end = loaded.gaps_end
        # Called when `gaps_end` has been raised and must be written down before the log goes on.
        self.on_gap: Callable[[Log], None] = _not_noted
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
        """Open or create the log in `folder`; after an unclean stop recover it from the recovery point on.

        The offsets are those of the checkpoints; the high watermark is only there to be compared with.
        """
        name = folder.rpartition("/")[2]
        log_files.parse_folder(name)  # refused before anything is touched
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
        """The topic's configuration has changed."""
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
        """Check the batches, give them offsets and write them.  A refusal changes nothing in the log.

        The buffer is patched in place where it can be.
        """
        now_ms = self.clock.wall_ms()
        if origin is AppendOrigin.RAFT_LEADER:
            limit = self.options.max_message_bytes
            prepared = prepare_as_is(buffer, leader_epoch, self.end_offset, origin, self.name, limit)
        else:
            found = append_plain(self, buffer, leader_epoch, now_ms)
            if isinstance(found, AppendResult):
                return found
            prepared = prepare_leader(
                buffer, leader_epoch, self.end_offset, origin, self._rules, now_ms, found
            )
        return append_prepared(self, prepared, origin, verification, now_ms)

    def append_as_follower(self, buffer: Buffer, leader_epoch: int) -> AppendResult:
        """Write batches as the leader of this epoch sent them; a batch cut short at the end is left out."""
        origin = AppendOrigin.REPLICATION
        prepared = prepare_as_is(buffer, leader_epoch, self.end_offset, origin, self.name, None)
        if prepared is not None:
            self._note_gaps(prepared.headers)
        return append_prepared(self, prepared, origin, None, self.clock.wall_ms())

    def _note_gaps(self, headers: Sequence[BatchHeader]) -> None:
        """A compacted leader's batches do not follow each other: from the first gap on any may be missing."""
        following = self.end_offset
        for header in headers:
            if header.base_offset > max(following, self.gaps_end):
                self.gaps_end = LONG_MAX
                self.on_gap(self)
                return
            following = header.last_offset + 1

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool = False
    ) -> Verification | None:
        """Before asking the coordinator about a producer's transaction; None: there is no need to ask.

        That is so if it is known to be open.  transaction.partition.verification.enable=false spares the
        question to producers that add their partitions themselves (before transaction.version 2).
        """
        if not supports_epoch_bump and not self.options.transaction_partition_verification_enable:
            return None
        now_ms = self.clock.wall_ms()
        return self.producers.start_verification(producer_id, sequence, epoch, supports_epoch_bump, now_ms)

    # Offsets

    @property
    def last_stable_offset(self) -> int:
        """Up to here read_committed consumers may read."""
        first = self.first_unstable_offset
        return first if first is not None and first < self.high_watermark else self.high_watermark

    def set_high_watermark(self, offset: int) -> int:
        """Within the log's bounds; the value taken."""
        self.high_watermark = min(max(offset, self.log_start_offset), self.end_offset)
        self.producers.on_high_watermark(self.high_watermark)
        self.find_first_unstable()
        return self.high_watermark

    def advance_high_watermark(self, offset: int) -> bool:
        """Forward only; whether it moved."""
        if offset > self.end_offset:
            raise ValueError(f"{self.name}: high watermark {offset} is beyond the end {self.end_offset}")
        if offset <= self.high_watermark:
            return False
        if self.first_unstable_offset is None:
            self.high_watermark = offset  # no transaction waits for it
        else:
            self.set_high_watermark(offset)
        return True

    def advance_log_start(self, offset: int) -> bool:
        """Records before this offset are no longer there; whether it moved."""
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
        """A transaction began or ended, or its marker was replicated."""
        first = self.producers.first_unstable_offset
        self.first_unstable_offset = None if first is None else max(first, self.log_start_offset)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """A leader begins to write here."""
        with failing(self.folder, "writing the leader epochs"):
            self.epochs.assign(epoch, start_offset)

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
        """From the batch that holds `offset` on, at most max_bytes of one segment, offsets below the bound.

        With min_one_batch the first batch comes whole even if it is larger (KIP-74).  What was written before
        this start is checked when it is first read: unless `may_wait`, what must come from the device for
        that is returned as `cold`, to be read elsewhere first.
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
                # Nothing is wrong with the directory: the client asks again.
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{self.name}: too many open files; raise the limit (ulimit -n) and restart",
                ) from error
            raise StorageFailure(self.folder, "reading", error) from error

    def aborted_transactions(self, start: int, upper_bound: int) -> list[AbortedTransaction]:
        """Those that touch [start, upper_bound)."""
        segment = self.segments.floor(start) or self.segments[0]
        return self._reader.aborted_between(segment, start, upper_bound)

    def offset_for_time(self, timestamp: int) -> TimestampAndOffset | None:
        """The first offset with this time or later, or one of the special times; None if there is no such."""
        with failing(self.folder, "searching by time"):
            return self._reader.offset_for_time(
                timestamp, self.log_start_offset, self.end_offset, self.epochs
            )

    # Cutting

    def truncate_to(self, offset: int) -> bool:
        """Drop all from this offset on; whether anything went."""
        if offset < 0:
            raise ValueError(f"{self.name}: cannot truncate to the negative offset {offset}")
        with failing(self.folder, "truncating"):
            if offset >= self.end_offset:
                # A leader that never wrote may have left an epoch at the end.
                self.epochs.truncate_from_end(self.end_offset)
                return False
            if self.segments[0].base_offset > offset:
                self.truncate_fully_to(offset)
                return True
            going = [segment for segment in self.segments if segment.base_offset > offset]
            self.local.retire(going)
            self.active.truncate_to(offset)
            self._cut_back(offset)
            # Else a power loss might bring back what was cut, under the epoch of what is written here next.
            self.active.sync()
            if going:
                self.disk.sync_folder(self.folder)
            self.epochs.truncate_from_end(offset)
            self.log_start_offset = min(offset, self.log_start_offset)
            self._rebuild_producers(offset)
            if self.high_watermark > offset:
                self.set_high_watermark(offset)
            self.find_first_unstable()
            return True

    def truncate_fully_to(
        self, offset: int, *, log_start_offset: int | None = None, sync: bool = True
    ) -> None:
        """Drop everything and begin anew at this offset.

        Without `sync` a power loss before the next flush may bring back what was dropped: for copies, which
        do not count before they are flushed.
        """
        with failing(self.folder, "truncating"):
            self.local.retire(list(self.segments))
            self.local.begin_anew(offset, sync=sync)
            self._cut_back(offset)
            self.epochs.clear(write=sync)
            self.producers.truncate_fully_to(offset)
            self.log_start_offset = offset if log_start_offset is None else log_start_offset
            if sync:
                self._rebuild_producers(offset)
            self.set_high_watermark(offset)

    def _cut_back(self, offset: int) -> None:
        self.local.cut_back(offset)
        self.end_offset = offset
        self.gaps_end = min(self.gaps_end, offset)

    def _rebuild_producers(self, end_offset: int) -> None:
        rebuild_producers(
            self.producers,
            self.segments,
            self.log_start_offset,
            end_offset,
            self.clock.wall_ms(),
            after_clean_stop=False,
        )

    # Retention

    def remove_segments(self, segments: Sequence[Segment], reason: str) -> int:
        """Let the oldest segments go, for retention; a log of which all goes is rolled first.

        The files are renamed `.deleted` and go when their job of `take_delete_jobs` is run.
        """
        if not segments:
            return 0
        with failing(self.folder, "removing segments"):
            logger.info("%s: %d segments go because %s", self.name, len(segments), reason)
            if len(segments) == len(self.segments):
                self.roll_at(self.end_offset)
            going = [segment for segment in segments if segment is not self.active]
            if going:
                following = self.segments.after(going[-1])
                assert following is not None, "the active segment stays"
                self.advance_log_start(following.base_offset)
                self.local.retire(going)
            return len(segments)

    # Files

    @property
    def folder(self) -> str:
        return self.local.folder

    @property
    def name(self) -> str:
        """The folder's own, which is that of the partition unless the log is a copy or being deleted."""
        return self.local.name

    @property
    def options(self) -> LogOptions:
        return self.local.options

    @property
    def active(self) -> Segment:
        return self.segments.last

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self.segments.size

    @property
    def is_closed(self) -> bool:
        return self.local.is_closed

    def roll(self) -> Segment:
        """Begin a new segment at the end offset; an empty active one serves as it is."""
        with failing(self.folder, "rolling"):
            return self.roll_at(self.end_offset)

    def roll_at(self, expected_offset: int) -> Segment:
        """The same, for batches that begin at this offset or later."""
        return self.local.roll(max(expected_offset, self.end_offset))

    def take_file_deletions(self) -> list[FileDeletion]:
        """Deletes that came up since the last call: by retention, truncation, cleaning, recovery."""
        return self.local.take_file_deletions()

    def rename_folder(self, name: str, *, sync: bool = True) -> None:
        """To topic-partition.<hex>-delete and its like, or back (a future log that takes over)."""
        self.local.rename_folder(name, sync=sync)

    def close(self, *, sync: bool = True) -> None:
        """Clean; flush before this.  Without `sync` the caller syncs the folder, then says `all_synced`."""
        self.local.close(sync=sync)

    def all_synced(self) -> None:
        """Whatever was written to the log's folder is safe."""
        self.local.all_synced(self.end_offset)

    def abandon(self) -> None:
        """Let go of all files without writing: the directory has failed."""
        self.local.abandon()

    def delete(self) -> None:
        """Let go of all files and remove the folder with all it holds."""
        self.local.delete()

    # Flushing

    @property
    def recovery_point(self) -> int:
        """All before this offset is on stable storage."""
        return self.local.recovery_point

    @property
    def restart_point(self) -> int:
        """The recovery point to write down; see LocalLog."""
        return self.local.restart_point

    @property
    def is_closed_part_unflushed(self) -> bool:
        """Whether a segment was rolled that has not been brought to stable storage as a whole."""
        return self.local.is_closed_part_unflushed

    def flush_wanted(self) -> int | None:
        """Up to which offset a flush is due: by flush.messages, flush.ms, or a segment that was rolled."""
        return self.local.flush_wanted(self.end_offset)

    def should_flush(self) -> bool:
        return self.flush_wanted() is not None

    def plan_flush(self, up_to: int | None = None) -> FlushPlan | None:
        """What to sync for safety up to this offset (all by default); None if there is nothing.

        `plan.run()` may go on anywhere, then `flushed(plan)` here again, and at last `plan.close()`.
        """
        return self.local.plan_flush(self.end_offset if up_to is None else min(up_to, self.end_offset))

    def flushed(self, plan: FlushPlan) -> None:
        """The plan has run: a crash loses nothing below its offset."""
        self.local.flushed(plan)

    def flush(self, up_to: int | None = None) -> None:
        """All three steps at once."""
        plan = self.plan_flush(up_to)
        if plan is not None:
            try:
                plan.run()
                self.flushed(plan)
            finally:
                plan.close()

    # Producers

    def remove_expired_producers(self) -> None:
        """Each producer.id.expiration.check.interval.ms."""
        self.producers.remove_expired(self.clock.wall_ms())

    def last_records_of_producers(self) -> dict[int, tuple[int | None, int]]:
        """Producer id -> (last data offset, epoch): compaction keeps these batches, if only their headers."""
        return {
            producer_id: (entry.last_data_offset, entry.epoch)
            for producer_id, entry in self.producers.entries.items()
        }


def _not_noted(log: Log) -> None:
    """A log without a manager: whoever opens it next does not know of its gaps, and keeps them."""
