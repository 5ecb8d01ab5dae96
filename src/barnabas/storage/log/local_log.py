"""The files of a log in service: its segments, how they are rolled, flushed, retired, replaced and closed.

What lives here: everything that a log does to its folder but reading, appending and cutting.  What may not:
the log's offsets and what the batches mean (log.py, which has one of these): where the log ends is told with
each call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.random import Random
from barnabas.storage.failure import failing
from barnabas.storage.log import log_files
from barnabas.storage.log.deferred_work import FileDeletion, FlushPlan, OpenFiles, SyncedRecords
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.log.log_reader import LogReader
from barnabas.storage.log.recovery import LoadedLog
from barnabas.storage.segment.segment import Segment


class LocalLog:
    """The files of one log: what is there, and what of it is on stable storage.

    The snapshots of the producers and the leader epochs are files too: they are written by their owners, when
    it is time to.
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
        # Names of snapshots, and segments that were closed and whose files no flush has synced as a whole.
        self._unsynced_snapshots = list(loaded.unsynced_snapshots)
        self._unsynced_segments: list[Segment] = []
        # The folder's own name is synced with the first flush.
        self._is_new = loaded.is_new
        # How many times files were made, and how many of these names are known to last.  Those that were
        # found may be of a life that had no time to sync them.
        self._names_made = 1
        self._names_synced = 0
        self._cuts = 0
        # The active segment's records, open to be synced again; None during a flush.
        self._synced: SyncedRecords | None = None
        self._delete_later(loaded.deleted_names)

    @property
    def active(self) -> Segment:
        return self.segments.last

    def begin_anew(self, base_offset: int, *, sync: bool) -> None:
        """All segments were retired: an empty one at this offset."""
        self.segments.add(self._new_segment(base_offset))
        if sync:
            self.disk.sync_folder(self.folder)

    def note_new_name(self) -> None:
        """A file may have been made here by somebody else."""
        self._names_made += 1

    def cut_back(self, offset: int) -> None:
        """The log ends at this offset now: places in it are no longer what they were, nor are flushes."""
        self.reader.forget()
        self._cuts += 1
        self.recovery_point = min(self.recovery_point, offset)

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
        """Begin a new segment at an offset; an empty active one serves as it is."""
        active = self.active
        if active.size == 0 and active.base_offset == base_offset:
            active.grow_indexes()
            return active
        active.become_inactive()
        # It is synced as a whole by the next flush.  Until then a crash has all of it read again
        # (`restart_point`): its indexes are made anew, and zeroes behind its batches, if it was preallocated
        # and the cut is lost, are cut again.
        self._unsynced_segments.append(active)
        segment = self._new_segment(base_offset)
        self.segments.add(segment)
        self.segments.reading(active)
        self._let_go_unless_active()
        # The snapshot before a segment spares recovery all that lies before it.
        self._producers.end_offset = base_offset
        snapshot = self._producers.take_snapshot(sync=False)
        if snapshot is not None:
            self._unsynced_snapshots.append(snapshot.rpartition("/")[2])
        return segment

    def flush_wanted(self, end_offset: int) -> int | None:
        """Up to which offset a flush is due: by flush.messages, flush.ms, or a segment that was rolled."""
        unflushed = end_offset - self.recovery_point
        if unflushed > 0:
            waited_ms = self.clock.wall_ms() - self.last_flush_ms
            if unflushed >= self.options.flush_messages or waited_ms >= self.options.flush_ms:
                return end_offset
        return self.active.base_offset if self.is_closed_part_unflushed else None

    @property
    def is_closed_part_unflushed(self) -> bool:
        """Whether a segment was rolled that has not been brought to stable storage as a whole."""
        return self.recovery_point < self.segments.last.base_offset or bool(self._unsynced_segments)

    def plan_flush(self, up_to: int) -> FlushPlan | None:
        """What to sync for safety up to this offset; None if there is nothing.

        Here, on the log's thread, waiting index entries of closed segments are written and handles opened;
        `plan.run()` may then go on anywhere, `flushed(plan)` here again, and at last `plan.close()`.
        """
        segments = self.segments.between(self.recovery_point, up_to) if up_to > self.recovery_point else []
        self._unsynced_segments = closed = [
            segment
            for segment in self._unsynced_segments
            # One that a truncation made the active one again is noted anew when it is rolled.
            if self.segments.contains(segment) and segment is not self.active
        ]
        if not segments and not closed:
            return None
        names = list(self._unsynced_snapshots)
        planned = dict.fromkeys((*closed, *segments))
        with failing(self.folder, "flushing"):
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
            self._epochs.plan_write(),
        )

    def _paths_to_sync(self, segment: Segment) -> list[str]:
        """Beside the records of the active segment, which stay open from flush to flush.

        After a crash all of it is read again (`restart_point`) and its indexes are made anew: to sync them
        with each flush would cost more than the records, for they grow too.  `close` syncs them.
        """
        if segment is self.active:
            return []
        segment.write_out()
        return [segment.path(kind) for kind in log_files.SEGMENT_FILES]

    def _open_records(self, segment: Segment) -> None:
        """Unless the last flush was of this segment too."""
        if self._synced is None or self._synced.segment is not segment:
            self._keep_open(SyncedRecords(segment, self.disk.open(segment.path(log_files.LOG))))

    def _let_go_unless_active(self) -> None:
        """Else a segment that is deleted would keep its room on the device."""
        synced = self._synced
        if synced is None or (synced.segment is self.active and self.segments.contains(synced.segment)):
            return
        self._keep_open(None)

    def _keep_open(self, records: SyncedRecords | None) -> None:
        """These for the next flush instead of the ones before."""
        if self._synced is not None:
            self._synced.file.close()
        self._synced = records

    @property
    def restart_point(self) -> int:
        """The recovery point to write down: a crash has the segment that holds it, and all later ones, read.

        It never lies behind a segment whose indexes are not synced, as those of the active one are not.
        """
        if self.is_closed:
            return self.recovery_point
        point = min(self.recovery_point, self.segments.last.base_offset)
        for segment in self._unsynced_segments:  # none, mostly: ten thousand logs are asked at once
            point = min(point, segment.base_offset)
        return point

    def flushed(self, plan: FlushPlan) -> None:
        """The plan has run: a crash loses nothing below its offset."""
        if plan.cuts != self._cuts:
            return
        covers = plan.covers
        if plan.epochs is not None:
            self._epochs.written(plan.epochs.entries)
        records = plan.take_records()
        if records is not None:
            self._keep_open(records)
            self._let_go_unless_active()
        self._names_synced = max(self._names_synced, plan.names_made)
        self._unsynced_snapshots = [name for name in self._unsynced_snapshots if name not in covers]
        self._unsynced_segments = [one for one in self._unsynced_segments if one not in covers]
        if plan.up_to > self.recovery_point:
            self.recovery_point = plan.up_to
            self.last_flush_ms = self.clock.wall_ms()
            self._is_new = False

    # Retiring and replacing segments

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """All of `swap_segments` at once."""
        for _ in self.swap_segments(new, old):
            with failing(self.folder, "replacing segments"):
                self.disk.sync_folder(self.folder)

    def swap_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> Iterator[None]:
        """The cleaner's swap; `new` are `.cleaned`, inactive and synced.  A crash anywhere leaves old or new.

        First all new files are called `.swap` (from the last on: the loader finishes the job once the first
        one is), then the old ones `.deleted`, then the new ones get their names.  After each step the folder
        must be synced before the next, or a power loss might keep the deletions and forget the swap.  Readers
        have the new segments from the first step on, whatever their files are called.
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
        """Out of service, renamed, to be removed later."""
        self.reader.forget()
        names = []
        for segment in segments:
            self.segments.remove(segment)
            names += self._mark_deleted(segment, with_snapshot=True)
        self._delete_later(names)
        self._let_go_unless_active()

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
        """Deletes that came up since the last call: by retention, truncation, cleaning, recovery."""
        jobs, self._file_deletions = self._file_deletions, []
        return jobs

    # The folder

    def rename_folder(self, name: str, *, sync: bool = True) -> None:
        """To topic-partition.<hex>-delete and its like, or back (a future log that takes over)."""
        parent = self.folder.rpartition("/")[0]
        folder = f"{parent}/{name}"
        with failing(self.folder, "renaming the folder"):
            self.disk.rename(self.folder, folder)
            if sync:
                self.disk.sync_folder(parent)
        # A flush that is planned finds no folder to sync any more.
        self._cuts += 1
        self.folder = self._producers.folder = folder
        self.name = name
        for segment in self.segments:
            segment.move_to(folder)
        self._epochs.moved_to(folder)

    def close(self, *, sync: bool = True) -> None:
        """Clean: a snapshot of the producers at the end offset, indexes trimmed.  Flush before this.

        Who closes many logs does it without `sync`, then syncs their directory once, then says `all_synced`.
        """
        if self.is_closed:
            return
        self.is_closed = True
        with failing(self.folder, "closing"):
            self._keep_open(None)
            self._producers.take_snapshot(sync=sync)
            self._epochs.write_out(sync=sync)
            for segment in self.segments:
                segment.close(sync=sync)
            if sync:
                # No flush has: a clean stop is marked next, and what a power loss brought back would count.
                OpenFiles(self.disk, [self.active.path(kind) for kind in log_files.INDEXES]).sync()

    def all_synced(self, end_offset: int) -> None:
        """Whatever was written to the log's folder is safe."""
        self.recovery_point = end_offset
        self._unsynced_segments.clear()

    def abandon(self) -> None:
        """Let go of all files without writing: the directory has failed."""
        self.is_closed = True
        with contextlib.suppress(OSError):
            self._keep_open(None)
        for segment in self.segments:
            with contextlib.suppress(OSError):
                segment.release()

    def delete(self) -> None:
        """Let go of all files and remove the folder with all it holds."""
        self.abandon()
        self._file_deletions.clear()
        with failing(self.folder, "deleting the log"):
            self.disk.remove_tree(self.folder)


def jitter_ms(options: LogOptions, random: Random) -> int:
    """How much earlier a segment rolls, so that logs do not all roll at once."""
    most = min(options.segment_jitter_ms, options.segment_ms)
    return random.integer(0, most - 1) if most > 0 else 0
