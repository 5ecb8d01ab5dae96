"""Bugs planted in log and recovery, each of which `log-life` must find.

Each is a common mistake in such code: something not synced, synced in the wrong order, not
undone, trusted without a check, or forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from barnabas.runtime.disk.disk import Buffer, Disk, WholeFiles
from barnabas.runtime.planted import patched
from barnabas.storage.cleaner.cleaning_round import CleaningRound
from barnabas.storage.directories import log_dir
from barnabas.storage.log.deferred_work import FlushPlan
from barnabas.storage.log.leader_epochs import LeaderEpochs
from barnabas.storage.log.log import Log
from barnabas.storage.log.recovery import LogLoader
from barnabas.storage.segment import batch_chain
from barnabas.storage.segment.file_records import FileRecords
from barnabas.storage.segment.segment import Segment
from barnabas.storage.segment.segment_indexes import SegmentIndexes
from barnabas.testing.simulation.registry import planted

FINDS = "log-life"
# Every bug must be found within this many seeds.


@planted("flush-forgets-the-log", scenario=FINDS)
def flush_forgets_the_log() -> Iterator[None]:
    """A flush syncs the folder but not the files."""

    def run(self: FlushPlan) -> None:
        for folder in self._folders:
            self._disk.sync_folder(folder)

    with patched(FlushPlan, "run", run):
        yield


@planted("flush-forgets-new-names", scenario=FINDS)
def flush_forgets_new_names() -> Iterator[None]:
    """A flush syncs the files but not the folders that contain them."""

    def run(self: FlushPlan) -> None:
        self._files.sync()

    with patched(FlushPlan, "run", run):
        yield


@planted("recovery-point-runs-ahead", scenario=FINDS)
def recovery_point_runs_ahead() -> Iterator[None]:
    """After a flush up to some offset the recovery point is set to the end of the log, without a sync."""

    def flush(self: Log, up_to: int | None = None) -> None:
        self.local.recovery_point = self.end_offset

    with patched(Log, "flush", flush):
        yield


@planted("crc-not-checked", scenario=FINDS)
def crc_not_checked() -> Iterator[None]:
    """Recovery treats a batch as valid without checking its CRC."""
    with patched(batch_chain, "crc_ok", lambda header, data, start: True):
        yield


@planted("torn-tail-not-cut", scenario=FINDS)
def torn_tail_not_cut() -> Iterator[None]:
    """Recovery finds the torn tail and leaves it in the file."""
    with patched(FileRecords, "cut", lambda self, size: None):
        yield


@planted("clean-mark-stays", scenario=FINDS)
def clean_mark_stays() -> Iterator[None]:
    """The clean-shutdown file is not removed at startup, so that a crash is mistaken for a clean shutdown."""
    with patched(log_dir, "remove_clean_shutdown", lambda disk, path: None):
        yield


@planted("producers-not-replayed", scenario=FINDS)
def producers_not_replayed() -> Iterator[None]:
    """A recovered log loses its producers' sequences."""
    original = Log.open.__func__  # type: ignore[attr-defined]

    def open_(cls: type[Log], *args: Any, **options: Any) -> Log:
        log: Log = original(cls, *args, **options)
        if not options["clean"]:
            log.producers.entries.clear()
        return log

    with patched(Log, "open", classmethod(open_)):
        yield


@planted("aborted-not-indexed", scenario=FINDS)
def aborted_not_indexed() -> Iterator[None]:
    """Recovery does not write the aborted transactions to their index."""
    with patched(SegmentIndexes, "add_aborted", lambda self, *transaction: None):
        yield


@planted("epochs-not-truncated", scenario=FINDS, first_seed=189)
def epochs_not_truncated() -> Iterator[None]:
    """Truncating the log keeps the leader epochs that began in the truncated part."""
    with patched(LeaderEpochs, "truncate_from_end", lambda self, offset: None):
        yield


@planted("checkpoint-written-in-place", scenario=FINDS)
def checkpoint_written_in_place() -> Iterator[None]:
    """A checkpoint is written in place instead of being replaced atomically."""

    def write_atomically(self: Disk, path: str, data: bytes, *, sync: bool = True) -> None:
        file = self.open(path, create=True)
        file.truncate(0)
        file.append([data])
        file.close()

    with patched(WholeFiles, "write_atomically", write_atomically):
        yield


@planted("refused-write-left-behind", scenario=FINDS)
def refused_write_left_behind() -> Iterator[None]:
    """A write that fails in the middle is not undone."""

    def write(self: FileRecords, buffer: Buffer) -> None:
        self.file().append([buffer])

    with patched(FileRecords, "write", write):
        yield


@planted("cleaner-cleans-the-undecided", scenario=FINDS)
def cleaner_cleans_the_undecided() -> Iterator[None]:
    """Compaction continues into open transactions, whose records may be aborted."""
    with patched(Log, "last_stable_offset", property(lambda self: self.high_watermark)):
        yield


@planted("gaps-judged-by-current-policy", scenario=FINDS)
def gaps_told_by_todays_policy() -> Iterator[None]:
    """Recovery treats a gap between segments as a loss unless the topic is compacted now (F1)."""

    def is_followed_by_gap(self: LogLoader, segment: Segment, dropped: int) -> bool:
        following = self._segments.after(segment)
        if following is None or segment.next_offset() == following.base_offset:
            return False
        return dropped > 0 or not self._options.cleanup_compact

    with patched(LogLoader, "_is_followed_by_gap", is_followed_by_gap):
        yield


@planted("cleaner-does-not-flush", scenario=FINDS, first_seed=215)
def cleaner_does_not_flush() -> Iterator[None]:
    """Records are removed because of later ones, or of markers, that a power loss may lose."""

    def expect_gaps(self: CleaningRound) -> Iterator[int]:
        log = self.target.log
        log.gaps_end = max(log.gaps_end, self.target.first_uncleanable_offset)
        yield from self.wait_for(self.plan_gaps())

    with patched(CleaningRound, "_expect_gaps", expect_gaps):
        yield
