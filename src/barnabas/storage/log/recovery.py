"""The log loader: opens a log's folder, completes interrupted work and recovers unflushed segments.

Follows the order of Apache Kafka's LogLoader.  Operations on an open log belong in log.py.

After a clean shutdown only names, sizes and the end of the last segment are read.  After an unclean one the
segments from the recovery point on are read batch by batch: the log is truncated at the first batch that is
torn or has a wrong CRC.  Indexes, aborted transactions and producer state of these segments are rebuilt.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from barnabas.batch.view import BatchHeader, CorruptBatch
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Disk
from barnabas.storage.log import log_files
from barnabas.storage.log.leader_epochs import LeaderEpochs
from barnabas.storage.log.log_options import LONG_MAX, LogOptions
from barnabas.storage.log.unfinished import finish_interrupted
from barnabas.storage.producers.producer_replay import rebuild_producers
from barnabas.storage.producers.producers import Producers
from barnabas.storage.progress import Watch, unwatched
from barnabas.storage.refused import DamagedFile
from barnabas.storage.segment.segment import Segment
from barnabas.storage.segment.segment_recovery import recover_segment
from barnabas.storage.segment.segments import Segments
from barnabas.storage.segment.transaction_index import DamagedIndex

logger = logging.getLogger(__name__)

# The number of last batches that must contradict the leader epoch file before it is rebuilt.
EPOCH_CHECK_BATCHES = 2


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """The loaded state of a log's folder."""

    segments: Segments
    producers: Producers
    epochs: LeaderEpochs
    log_start_offset: int
    recovery_point: int
    end_offset: int
    # See `Log.gaps_end`.
    gaps_end: int
    # Whether this load created the folder.
    is_new: bool
    # Files renamed `.deleted` during the load, to be removed later.
    deleted_names: list[str]
    # Snapshots that were written but not synced.
    unsynced_snapshots: list[str]
    # Whether the log start offset comes from its checkpoint.
    is_start_checkpointed: bool = False


class LogLoader:
    """Loads one folder, once."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        folder: str,
        log_name: str,
        options: LogOptions,
        *,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
        high_watermark: int | None,
        gaps_end: int,
        jitter_ms: Callable[[], int],
        watch: Watch = unwatched,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._folder = folder
        self._log_name = log_name
        self._options = options
        self._clean = clean
        self._recovery_point = recovery_point
        self._log_start_offset = log_start_offset
        self._is_start_checkpointed = log_start_offset > 0
        self._high_watermark = high_watermark
        self._gaps_end = gaps_end
        self._jitter_ms = jitter_ms
        self._watch = watch
        self._segments = Segments()
        self._epochs = LeaderEpochs(disk, folder)
        self._deleted_names: list[str] = []
        self._unsynced_snapshots: list[str] = []

    def load(self) -> LoadedLog:
        is_new = not self._disk.exists(self._folder)
        if is_new:
            self._disk.make_folder(self._folder)
            if self._log_start_offset == 0:
                return self._begin()
        finish_interrupted(self._disk, self._folder)
        if self._folder.endswith(log_files.DELETE_FOLDER):
            return self._as_it_is()
        damaged = self._load_segments()
        self._load_epochs()
        self._recover(damaged)
        end_offset = self._settle_end()
        has_lost_epochs = any(entry.start_offset > end_offset for entry in self._epochs.entries)
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(self._log_start_offset)
        if has_lost_epochs:
            # Batches of these epochs or earlier ones may follow, for which the file would have to be written
            # at once, on the loop.
            self._epochs.write_out()
        recovery_point = end_offset if self._clean else self._flushed_end(end_offset)
        log_start_offset = max(self._log_start_offset, self._segments[0].base_offset)
        producers = self._new_producers()
        producers.remove_stray_snapshots(self._segments.base_offsets)
        now_ms = self._clock.wall_ms()
        rebuild_producers(
            producers,
            self._segments,
            log_start_offset,
            end_offset,
            now_ms,
            after_clean_stop=self._clean,
            watch=self._watch,
        )
        return LoadedLog(
            self._segments,
            producers,
            self._epochs,
            log_start_offset,
            recovery_point,
            end_offset,
            # Batches appended from now on have no gaps, whatever may be missing before them.
            min(self._gaps_end, end_offset),
            is_new,
            self._deleted_names,
            self._unsynced_snapshots,
            is_start_checkpointed=self._is_start_checkpointed,
        )

    def release(self) -> None:
        """Close all files: the load failed or was stopped."""
        for segment in self._segments:
            with contextlib.suppress(OSError):
                segment.release()

    def _begin(self) -> LoadedLog:
        """Create a new log in a new folder: there is nothing to load, complete or remove."""
        self._epochs.create()
        segment = Segment.create(
            self._disk,
            self._clock,
            self._folder,
            0,
            self._options,
            jitter_ms=self._jitter_ms(),
            is_in_new_folder=True,
        )
        self._segments.add(segment)
        return LoadedLog(self._segments, self._producers(), self._epochs, 0, 0, 0, 0, True, [], [])

    def _as_it_is(self) -> LoadedLog:
        """A folder that is scheduled for deletion is neither recovered nor written to."""
        for name in self._disk.names(self._folder):
            offset = log_files.offset_in(name)
            if offset is not None and name == log_files.of_offset(offset, log_files.LOG):
                self._segments.add(self._segment(offset, self._disk.size(f"{self._folder}/{name}")))
        if not self._segments:
            self._segments.add(self._segment(0, 0))
        return LoadedLog(self._segments, self._new_producers(), self._epochs, 0, 0, 0, 0, False, [], [])

    # Segments

    def _load_segments(self) -> set[int]:
        """Add every segment; returns the base offsets of those whose indexes must be rebuilt."""
        names = self._disk.names(self._folder)
        known = set(names)
        damaged = set()
        for name in names:
            offset = log_files.offset_in(name)
            if offset is None:
                continue
            if name.endswith(log_files.INDEXES) and log_files.of_offset(offset, log_files.LOG) not in known:
                logger.warning("%s/%s: removing an index without its log file", self._folder, name)
                self._disk.remove(f"{self._folder}/{name}")
            elif name == log_files.of_offset(offset, log_files.LOG):
                segment = self._segment(offset, self._disk.size(f"{self._folder}/{name}"))
                self._segments.add(segment)
                if not self._has_indexes(segment, known):
                    damaged.add(offset)
        return damaged.union(self._damaged_transaction_indexes(known))

    def _segment(self, base_offset: int, size: int) -> Segment:
        return Segment(
            self._disk,
            self._clock,
            self._folder,
            base_offset,
            self._options,
            size=size,
            jitter_ms=self._jitter_ms(),
        )

    def _new_segment(self, base_offset: int) -> Segment:
        return Segment.create(
            self._disk, self._clock, self._folder, base_offset, self._options, jitter_ms=self._jitter_ms()
        )

    def _has_indexes(self, segment: Segment, known: set[str]) -> bool:
        base_offset = segment.base_offset
        if log_files.of_offset(base_offset, log_files.OFFSET_INDEX) not in known:
            if self._clean or base_offset < self._recovery_point:
                logger.warning("%s: the offset index is missing; rebuilding it", segment.path(log_files.LOG))
            return False
        if log_files.of_offset(base_offset, log_files.TIME_INDEX) not in known:
            segment.indexes.times().resize(0)
            segment.release()
        return True

    def _damaged_transaction_indexes(self, known: set[str]) -> Iterator[int]:
        """Base offsets of segments whose transaction index is damaged.

        These indexes are short, so they are read whole; entries of the other indexes are checked when used.
        """
        for segment in self._segments:
            if log_files.of_offset(segment.base_offset, log_files.TRANSACTION_INDEX) in known:
                try:
                    segment.transaction_index.check(self._limit_of(segment))
                except DamagedIndex as error:
                    logger.warning("%s; rebuilding the segment's indexes", error)
                    yield segment.base_offset
                finally:
                    segment.release()

    def _limit_of(self, segment: Segment) -> int:
        """The exclusive upper bound of the segment's offsets."""
        following = self._segments.after(segment)
        if following is not None:
            return following.base_offset
        try:
            return segment.next_offset() if self._clean else LONG_MAX
        except CorruptBatch:
            return LONG_MAX

    # Leader epochs

    def _load_epochs(self) -> None:
        """Load the leader epochs; rebuild the file if it is damaged or the last batches contradict it."""
        try:
            self._epochs.load()
        except DamagedFile as error:
            self._rebuild_epochs(str(error))
            return
        headers = [header for header in self._last_headers() if header.leader_epoch >= 0]
        assigned = [self._epochs.epoch_for_offset(header.base_offset) for header in headers]
        if any(header.leader_epoch == epoch for header, epoch in zip(headers, assigned, strict=True)):
            return
        # A single batch may itself be damaged: the CRC does not cover its leader epoch.
        if len(headers) == EPOCH_CHECK_BATCHES or (headers and not self._epochs.entries):
            self._rebuild_epochs(
                f"{self._folder}/{log_files.LEADER_EPOCHS} assigns the batch at offset"
                f" {headers[-1].base_offset} to epoch {assigned[-1]}, but its epoch is"
                f" {headers[-1].leader_epoch}"
            )

    def _last_headers(self) -> Sequence[BatchHeader]:
        """Headers of some of the last batches whose epochs the file must contain.

        After a crash these lie before the recovery point: a flush writes the file, and recovery restores the
        epochs of later batches.  In a segment whose end may be torn, the first batches are used.
        """
        for segment in reversed(self._segments):
            if segment.size > 0 and (self._clean or segment.base_offset < self._recovery_point):
                with contextlib.suppress(CorruptBatch):
                    if self._clean:
                        headers = segment.search.last_headers(EPOCH_CHECK_BATCHES)
                        return [header for header in headers if header.base_offset >= self._log_start_offset]
                    return list(islice(self._flushed_headers(segment), EPOCH_CHECK_BATCHES))
        return ()

    def _flushed_headers(self, segment: Segment) -> Iterator[BatchHeader]:
        """Headers of the flushed batches at or after the log start offset."""
        for header in segment.headers():
            if header.base_offset >= self._recovery_point:
                return
            if header.base_offset >= self._log_start_offset:
                yield header

    def _rebuild_epochs(self, reason: str) -> None:
        path = f"{self._folder}/{log_files.LEADER_EPOCHS}"
        logger.warning("%s; it is kept as %s.damaged and rebuilt from the log", reason, path)
        self._disk.rename(path, f"{path}.damaged")
        self._epochs = LeaderEpochs(self._disk, self._folder)
        self._epochs.load()
        self._epochs.assign_all(_epochs_of(self._segments))

    # Recovery

    def _recover(self, damaged: set[int]) -> None:
        if self._clean and self._segments and not self._segments[-1].search.ends_whole():
            logger.warning("%s: the last batch is torn despite a clean shutdown", self._segments[-1])
            damaged.add(self._segments[-1].base_offset)
        unflushed = [] if self._clean else self._segments.between(self._recovery_point, LONG_MAX)
        suspect = damaged.union(segment.base_offset for segment in unflushed)
        if not suspect:
            return
        producers, before = self._new_producers(), Segments()
        recovered: Segment | None = None
        for segment in list(self._segments):
            if segment.base_offset in suspect:
                if before and recovered is before[-1]:
                    producers.end_offset = segment.base_offset
                    producers.take_snapshot(sync=True)
                else:
                    self._catch_up(producers, before, segment.base_offset)
                recovered = segment
                dropped = self._recover_segment(segment, producers)
                if segment in unflushed and self._is_followed_by_gap(segment, dropped):
                    self._mark_deleted(self._segments.between(segment.base_offset, LONG_MAX)[1:])
                    return
            before.add(segment)

    def _is_followed_by_gap(self, segment: Segment, dropped: int) -> bool:
        """Whether batches are missing between a segment and the next one.

        A power loss may keep a later file and lose the end of an earlier one.  Apache Kafka leaves the hole,
        which is never repaired; records after the last good batch of a truncated log are fetched or sent
        again.  Where compaction may have left a gap (`Log.gaps_end`), it proves nothing unless bytes were
        truncated there.  If the next segment starts right after the truncated part, no batch was lost.
        """
        following = self._segments.after(segment)
        if following is None:
            return False
        end_offset = segment.next_offset()
        if end_offset == following.base_offset:
            return False
        if dropped == 0 and following.base_offset <= self._gaps_end:
            return False
        logger.warning(
            "%s ends at offset %d, the next segment starts at %d: the batches in between did not reach the"
            " disk; truncating the log",
            segment.path(log_files.LOG),
            end_offset,
            following.base_offset,
        )
        return True

    def _catch_up(self, producers: Producers, before: Segments, offset: int) -> None:
        """Restore the producer state before this offset, from a snapshot and the segments before it.

        This includes deleted records: the checkpointed log start offset may lie beyond what a power loss left
        of the log, and their transactions may end in this segment.
        """
        rebuild_producers(
            producers,
            before,
            self._segments[0].base_offset,
            offset,
            self._clock.wall_ms(),
            after_clean_stop=False,
            watch=self._watch,
        )

    def _recover_segment(self, segment: Segment, producers: Producers) -> int:
        following = self._segments.after(segment)
        limit = LONG_MAX if following is None else following.base_offset
        dropped, gaps = recover_segment(
            segment, producers, self._epochs, limit, self._gaps_end, watch=self._watch
        )
        if gaps:
            # These gaps are not in the checkpoint, so their extent is unknown.
            self._gaps_end = LONG_MAX
        # The truncated and rebuilt files must be durable, unless recovery reads them again after the next
        # crash, as it does the last segment until it is rolled: so ten thousand logs recover without a sync.
        must_last = self._clean or following is not None
        if must_last:
            segment.sync()
        # Recovery of the next segment, and of the next start, begins here.
        snapshot = producers.take_snapshot(sync=must_last)
        if snapshot is not None and not must_last:
            # Otherwise an old snapshot could reappear after a crash and be used once a segment starts there.
            self._unsynced_snapshots.append(snapshot.rpartition("/")[2])
        if dropped > 0:
            logger.warning(
                "%s: truncating %d bytes that are not valid batches; the log continues at offset %d",
                segment.path(log_files.LOG),
                dropped,
                producers.end_offset,
            )
        segment.release()
        return dropped

    def _flushed_end(self, end_offset: int) -> int:
        """The offset up to which the log is flushed after recovery.

        The recovered part of the last segment may be in the page cache only, and the next flush covers it: so
        ten thousand logs recover without a sync.  But where `flush.messages` holds the high watermark back
        until a flush, consumers would see nothing before the next one: such a log is flushed now.
        """
        if self._options.flush_messages == LONG_MAX:
            return min(self._recovery_point, self._segments[-1].base_offset)
        self._epochs.write_out()
        self._segments[-1].file().sync()
        self._segments[-1].release()
        self._disk.sync_folder(self._folder)
        return end_offset

    def _producers(self) -> Producers:
        return Producers(self._disk, self._folder, self._log_name, self._options.producer_id_expiration_ms)

    def _new_producers(self) -> Producers:
        producers = self._producers()
        producers.list_snapshots(self._disk.names(self._folder))
        return producers

    def _settle_end(self) -> int:
        """The log end offset; a log that ends before its start offset restarts empty at it."""
        if self._segments:
            end_offset = self._segments[-1].next_offset()
            if end_offset >= self._log_start_offset:
                return end_offset
            if not self._may_have_reached(self._log_start_offset):
                logger.warning(
                    "%s: the log ends at %d and never reached %d, its offset in log-start-offset-checkpoint;"
                    " it starts with its first segment",
                    self._folder,
                    end_offset,
                    self._log_start_offset,
                )
                self._log_start_offset = self._segments[0].base_offset
                return end_offset
            logger.warning(
                "%s: the log ends at %d, before its start offset %d; deleting its segments",
                self._folder,
                end_offset,
                self._log_start_offset,
            )
            self._mark_deleted(list(self._segments))
            self._epochs.clear()
            producers = self._new_producers()
            producers.truncate_fully_to(self._log_start_offset)
        self._segments.add(self._new_segment(self._log_start_offset))
        if self._log_start_offset > 0:
            # From now on only its name records the log's offset; without it the log would restart at 0.
            self._disk.sync_folder(self._folder)
        return self._log_start_offset

    def _may_have_reached(self, offset: int) -> bool:
        """Whether the log may once have reached this offset and then lost its end.

        Only a crash loses the end of a log, and only records below the high watermark are ever deleted.
        """
        known = self._high_watermark
        return not self._clean and (known is None or offset <= max(known, self._recovery_point))

    def _mark_deleted(self, segments: Iterable[Segment]) -> None:
        producers = self._new_producers()
        for segment in segments:
            self._segments.remove(segment)
            segment.change_suffix(log_files.DELETED)
            segment.release()
            self._deleted_names += [
                log_files.of_offset(segment.base_offset, kind, log_files.DELETED)
                for kind in log_files.SEGMENT_FILES
            ]
            snapshot = producers.mark_snapshot_deleted(segment.base_offset)
            if snapshot is not None:
                self._deleted_names.append(snapshot)
        # Otherwise a power loss could bring them back over batches written after this start.
        self._disk.sync_folder(self._folder)


def _epochs_of(segments: Segments) -> Iterable[tuple[int, int]]:
    """(epoch, offset) of each batch that starts a later epoch.

    Epochs never decrease: one followed by earlier ones is damaged, since the CRC does not cover it.
    """
    found: list[tuple[int, int]] = []
    for segment in segments:
        with contextlib.suppress(CorruptBatch):
            for header in segment.headers():
                while found and found[-1][0] > header.leader_epoch >= 0:
                    found.pop()
                if header.leader_epoch > (found[-1][0] if found else -1):
                    found.append((header.leader_epoch, header.base_offset))
        segment.release()
    return found
