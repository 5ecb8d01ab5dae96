"""The files of an open log: rolling, flushing, deleting, replacing and closing its segments.

Contains every operation on the log's folder except reading, appending and truncating.  Offsets and the
meaning of the batches belong in log.py: the caller passes the log end offset where it is needed.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.random import Random
from barnabas.storage.failure import failing, has_no_space, refusing
from barnabas.storage.log import log_files
from barnabas.storage.log.deferred_work import FileDeletion, FlushPlan, OpenFiles, SyncedRecords
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.log.log_reader import LogReader
from barnabas.storage.log.recovery import LoadedLog
from barnabas.storage.segment.segment import Segment

logger = logging.getLogger(__name__)


class LocalLog:
    """The files of one log: which exist, and which are on stable storage.

    Producer snapshots and leader epochs are files too; their owners write them when this class says so.
    """

    def __init__(
        self, disk: Disk, clock: Clock, random: Random, folder: str, options: LogOptions, loaded: LoadedLog
    ) -> None:
        self.disk = disk
        self.clock = clock
        self.folder = folder
        self.name = folder.rpartition("/")[2]
        self.options = options
        self.segments = loaded.segments
        self.reader = LogReader(self.segments)
        self._producers = loaded.producers
        self._epochs = loaded.epochs
        self.recovery_point = max(loaded.recovery_point, loaded.log_start_offset)
        self.last_flush_ms = clock.wall_ms()
        self.is_closed = False
        self._random = random
        self._file_deletions: list[FileDeletion] = []
        # Names of snapshots, and rolled segments, that no flush has synced completely.
        self._unsynced_snapshots = list(loaded.unsynced_snapshots)
        self._unsynced_segments: list[Segment] = []
        # The folder's own directory entry is synced with the first flush.
        self._is_new = loaded.is_new
        # The number of files created or removed, and of those whose directory entries are synced.  Those
        # found on open may come from a run that crashed before it synced them.
        self._names_made = 1
        self._names_synced = 0
        # The number of names when the first segment was removed last.  One removed before this start counts
        # if the log start offset is checkpointed: the crash may have come before its name was synced.
        self._start_moved = 1 if loaded.is_start_checkpointed else 0
        self._cuts = 0
        # A failed append was cut off the active segment, and no flush has synced that (`Log.not_appended`).
        self.is_tail_unsynced = False
        # The active segment's records, kept open for the next flush; None during a flush.
        self._synced: SyncedRecords | None = None
        self._delete_later(loaded.deleted_names)

    @property
    def active(self) -> Segment:
        return self.segments.last

    @property
    def is_start_durable(self) -> bool:
        """Whether no power loss brings back segments before the first one."""
        return self._start_moved <= self._names_synced

    def start_at(self, base_offset: int) -> None:
        """Create an empty segment at this offset, after all segments were removed."""
        self.segments.add(self._new_segment(base_offset))

    def note_new_name(self) -> None:
        """Called when another class may have created a file in this folder."""
        self._names_made += 1

    def cut_back(self, offset: int) -> None:
        """The log was truncated to this offset: cached positions and planned flushes are invalid."""
        self.reader.forget()
        self._cuts += 1
        self.recovery_point = min(self.recovery_point, offset)

    def tail_undone(self) -> None:
        """A failed append was cut off the active segment: the flush in progress may have synced it."""
        self._cuts += 1
        self.is_tail_unsynced = True

    def _new_segment(self, base_offset: int) -> Segment:
        self._names_made += 1
        return Segment.create(
            self.disk,
            self.clock,
            self.folder,
            base_offset,
            self.options,
            jitter_ms=jitter_ms(self.options, self._random),
        )

    # Rolling and flushing

    def roll(self, base_offset: int) -> Segment:
        """Roll to a new segment at this offset; an empty active segment is kept."""
        active = self.active
        if active.size == 0 and active.base_offset == base_offset:
            active.grow_indexes()
            return active
        active.become_inactive()
        segment = self._new_segment(base_offset)
        # The next flush syncs the rolled segment completely.  After an earlier crash, recovery reads all of
        # it (`restart_point`): it rebuilds the indexes and truncates the zeroes after the batches again if
        # the segment was preallocated and the truncation is lost.
        self._unsynced_segments.append(active)
        self.segments.add(segment)
        self.segments.reading(active)
        self._release_unless_active()
        # The snapshot at a segment's base offset saves recovery from reading the segments before it.
        self._producers.end_offset = base_offset
        self.take_snapshot()
        return segment

    def take_snapshot(self) -> None:
        """Write a snapshot of the producers at their offset; the next flush syncs it.

        A snapshot saves time, so a full disk does without: retention must be able to roll a log to free some.
        """
        try:
            snapshot = self._producers.take_snapshot(sync=False)
        except OSError as error:
            if not has_no_space(error):
                raise
            logger.info("%s: there is no space for a producer snapshot", self.folder)
            return
        if snapshot is not None:
            self._unsynced_snapshots.append(snapshot.rpartition("/")[2])

    def flush_wanted(self, end_offset: int) -> int | None:
        """The offset up to which a flush is due, by flush.messages, flush.ms or a roll; None if none is."""
        unflushed = end_offset - self.recovery_point
        if unflushed > 0:
            waited_ms = self.clock.wall_ms() - self.last_flush_ms
            if unflushed >= self.options.flush_messages or waited_ms >= self.options.flush_ms:
                return end_offset
        return self.active.base_offset if self.is_closed_part_unflushed else None

    @property
    def is_closed_part_unflushed(self) -> bool:
        """Whether a rolled segment is not yet completely on stable storage."""
        return self.recovery_point < self.segments.last.base_offset or bool(self._unsynced_segments)

    def plan_flush(self, up_to: int) -> FlushPlan | None:
        """What to sync so that the log is durable up to this offset; None if there is nothing to sync.

        This call, on the log's thread, writes pending index entries of rolled segments and opens the handles.
        `plan.run()` may then run on any thread; afterwards call `flushed(plan)` here and then `plan.close()`.
        """
        segments = self.segments.between(self.recovery_point, up_to) if up_to > self.recovery_point else []
        self._unsynced_segments = closed = [
            segment
            for segment in self._unsynced_segments
            # A segment that a truncation made active again is added again when it is rolled.
            if self.segments.contains(segment) and segment is not self.active
        ]
        tail = [self.active] if self.is_tail_unsynced else []
        if not segments and not closed and not tail:
            return None
        names = list(self._unsynced_snapshots)
        planned = dict.fromkeys((*closed, *segments, *tail))
        # Without space, buffered index entries stay buffered.
        with failing(self.folder, "flushing"), refusing(self.folder, "flushing"):
            if self.active in planned:
                self._open_records(self.active)
            paths = [f"{self.folder}/{name}" for name in names]
            for segment in planned:
                paths += self._paths_to_sync(segment)
            files = OpenFiles(self.disk, paths)
        folders = []
        if self._names_synced < self._names_made:
            folders.append(self.folder)
        if self._is_new:
            folders.append(self.folder.rpartition("/")[0])
        records = None
        if self.active in planned:
            records, self._synced = self._synced, None
        covers = frozenset((*names, *closed))
        return FlushPlan(
            self.disk,
            self.folder,
            up_to,
            self._cuts,
            files,
            records,
            folders,
            covers,
            self._names_made,
            self.segments[0].base_offset,
            self._epochs.plan_write(),
        )

    def _paths_to_sync(self, segment: Segment) -> list[str]:
        """The paths to sync, without the records of the active segment, which stay open between flushes.

        The active segment's indexes are left out: recovery rebuilds them after a crash (`restart_point`), and
        syncing them with each flush would cost more than syncing the records.  `close` syncs them.
        """
        if segment is self.active:
            return []
        segment.write_out()
        return [segment.path(kind) for kind in log_files.SEGMENT_FILES]

    def _open_records(self, segment: Segment) -> None:
        """Open the records, unless they are still open from the last flush."""
        if self._synced is None or self._synced.segment is not segment:
            self._keep_open(SyncedRecords(segment, self.disk.open(segment.path(log_files.LOG))))

    def _release_unless_active(self) -> None:
        """Close the kept records of an inactive segment: an open deleted file would keep its disk space."""
        synced = self._synced
        if synced is None or (synced.segment is self.active and self.segments.contains(synced.segment)):
            return
        self._keep_open(None)

    def _keep_open(self, records: SyncedRecords | None) -> None:
        """Keep these records open for the next flush and close the ones before."""
        if self._synced is not None:
            self._synced.file.close()
        self._synced = records

    @property
    def restart_point(self) -> int:
        """The recovery point to checkpoint: recovery reads the segment that contains it, and all later ones.

        It never lies after a segment whose indexes are not synced, such as the active one.
        """
        if self.is_closed:
            return self.recovery_point
        point = min(self.recovery_point, self.segments.last.base_offset)
        for segment in self._unsynced_segments:  # usually empty: this runs for ten thousand logs at once
            point = min(point, segment.base_offset)
        return point

    def flushed(self, plan: FlushPlan) -> None:
        """Called when the plan has run: everything below its offset is durable."""
        if plan.cuts != self._cuts:
            return
        covers = plan.covers
        if plan.epochs is not None:
            self._epochs.written(plan.epochs)
        records = plan.take_records()
        if records is not None:
            self.is_tail_unsynced = False
            self._keep_open(records)
            self._release_unless_active()
        self._names_synced = max(self._names_synced, plan.names_made)
        self._epochs.start_is_durable(plan.first_offset)
        self._unsynced_snapshots = [name for name in self._unsynced_snapshots if name not in covers]
        self._unsynced_segments = [one for one in self._unsynced_segments if one not in covers]
        if plan.up_to > self.recovery_point:
            self.recovery_point = plan.up_to
            self.last_flush_ms = self.clock.wall_ms()
            self._is_new = False

    # Deleting and replacing segments

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Run all steps of `swap_segments`."""
        for _ in self.swap_segments(new, old):
            with failing(self.folder, "replacing segments"):
                self.disk.sync_folder(self.folder)

    def swap_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> Iterator[None]:
        """The cleaner's swap; `new` are `.cleaned`, inactive and synced.  A crash leaves either old or new.

        First all new files are renamed `.swap` (from last to first: the loader completes the swap once the
        first one is), then the old ones `.deleted`, then the new ones get their final names.  The folder must
        be synced after each step, or a power loss might keep the deletions and lose the swap.  Readers use
        the new segments from the first step on, whatever their file names are.
        """
        with failing(self.folder, "replacing segments"):
            ordered = sorted(new, key=lambda segment: segment.base_offset)
            going = sorted(
                (one for one in old if self.segments.contains(one)), key=lambda segment: segment.base_offset
            )
            for segment in reversed(ordered):
                segment.change_suffix(log_files.SWAP)
            self.reader.forget()
            for segment in going:
                self.segments.remove(segment)
            for segment in ordered:
                self.segments.add(segment)
            yield
            kept = {segment.base_offset for segment in ordered}
            names = []
            for segment in going:
                names += self._mark_deleted(segment, with_snapshot=segment.base_offset not in kept)
            yield
            for segment in ordered:
                segment.change_suffix("")
                segment.release()
            yield
            self._delete_later(names)

    def retire(self, segments: Sequence[Segment]) -> None:
        """Rename a removed segment's files `.deleted` and schedule their deletion."""
        self.reader.forget()
        names = []
        for segment in segments:
            self.segments.remove(segment)
            names += self._mark_deleted(segment, with_snapshot=True)
        self._names_made += 1
        self._start_moved = self._names_made
        self._delete_later(names)
        self._release_unless_active()

    def _mark_deleted(self, segment: Segment, *, with_snapshot: bool) -> list[str]:
        segment.change_suffix(log_files.DELETED)
        segment.release()
        names = [
            log_files.of_offset(segment.base_offset, kind, log_files.DELETED)
            for kind in log_files.SEGMENT_FILES
        ]
        if with_snapshot:
            snapshot = self._producers.mark_snapshot_deleted(segment.base_offset)
            if snapshot is not None:
                names.append(snapshot)
        return names

    def _delete_later(self, names: Sequence[str]) -> None:
        if names:
            due_ms = self.clock.monotonic_ns() // NS_PER_MS + self.options.file_delete_delay_ms
            self._file_deletions.append(FileDeletion(self.disk, lambda: self.folder, names, due_ms))

    def take_file_deletions(self) -> list[FileDeletion]:
        """The deletions scheduled since the last call, by retention, truncation, cleaning or recovery."""
        deletions, self._file_deletions = self._file_deletions, []
        return deletions

    # The folder

    def rename_folder(self, name: str, *, sync: bool = True) -> None:
        """Rename to `topic-partition.<hex>-delete` or similar, or (a future log) to `topic-partition`."""
        parent = self.folder.rpartition("/")[0]
        folder = f"{parent}/{name}"
        with failing(self.folder, "renaming the folder"):
            self.disk.rename(self.folder, folder)
            if sync:
                self.disk.sync_folder(parent)
        # A planned flush would not find the folder that it syncs.
        self._cuts += 1
        self.folder = self._producers.folder = folder
        self.name = name
        for segment in self.segments:
            segment.move_to(folder)
        self._epochs.moved_to(folder)

    def close(self, *, sync: bool = True) -> None:
        """Clean close: write a producer snapshot at the log end offset and trim the indexes.  Flush first.

        To close many logs, call it without `sync`, sync their directory once, then call `all_synced`.
        """
        if self.is_closed:
            return
        self.is_closed = True
        # What it then lacks is rebuilt, as there is no clean shutdown file.
        with failing(self.folder, "closing"), refusing(self.folder, "closing"):
            self._keep_open(None)
            self._producers.take_snapshot(sync=sync)
            self._epochs.write_out(sync=sync)
            for segment in self.segments:
                segment.close(sync=sync)
            if sync:
                # No flush has synced them.  After the clean shutdown file is written, anything that a power
                # loss brings back would be trusted.
                OpenFiles(self.disk, [self.active.path(kind) for kind in log_files.INDEXES]).sync()

    def all_synced(self, end_offset: int) -> None:
        """Called when everything written to the log's folder is synced."""
        self.recovery_point = end_offset
        self._unsynced_segments.clear()

    def abandon(self) -> None:
        """Close all files without writing: the directory has failed."""
        self.is_closed = True
        with contextlib.suppress(OSError):
            self._keep_open(None)
        for segment in self.segments:
            with contextlib.suppress(OSError):
                segment.release()

    def delete(self) -> None:
        """Close all files and delete the folder with its content."""
        self.abandon()
        self._file_deletions.clear()
        with failing(self.folder, "deleting the log"):
            self.disk.remove_tree(self.folder)


def jitter_ms(options: LogOptions, random: Random) -> int:
    """A random amount by which a segment rolls earlier, so that logs do not all roll at once."""
    most = min(options.segment_jitter_ms, options.segment_ms)
    return random.integer(0, most - 1) if most > 0 else 0
