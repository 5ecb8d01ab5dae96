"""The leader epoch cache: the start offset of each leader epoch of a partition.

Contains the list of (epoch, start offset), its file `leader-epoch-checkpoint`, and the rules for adding and
removing entries.  How a follower uses the end offset of an epoch belongs in replica/.

Epochs and start offsets both ascend strictly.  An entry replaces those with the same or a later epoch, and
those with the same or a later start offset: their records were truncated or never written.

The file keeps the epochs of deleted records until a crash can no longer bring these records back.
Apache Kafka does not: if it crashes before the log start is checkpointed, the first epoch seems to end later
than it did, and a follower keeps records that the leader of the next epoch never had.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.latest import LatestWrite
from barnabas.storage.directories.checkpoints import CheckpointFile, parse_number
from barnabas.storage.log import log_files
from barnabas.storage.refused import DamagedFile

CHECKPOINT_VERSION = 0
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEntry(NamedTuple):
    """The leader of this epoch writes from this offset on."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The end offset of a leader epoch; both fields are -1 if it is unknown."""

    epoch: int
    end_offset: int


UNDEFINED_END = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)


def _to_line(entry: EpochEntry) -> str:
    return f"{entry.epoch} {entry.start_offset}"


def _from_line(line: str) -> EpochEntry | None:
    parts = line.split()
    if len(parts) != 2:
        return None
    epoch, start_offset = parse_number(parts[0], 32), parse_number(parts[1], 64)
    if epoch is None or start_offset is None or epoch < 0 or start_offset < 0:
        return None
    return EpochEntry(epoch, start_offset)


def _cut(entries: Sequence[EpochEntry], start_offset: int) -> list[EpochEntry]:
    """These entries for a log that starts at this offset."""
    later = bisect_right(entries, start_offset, key=lambda entry: entry.start_offset)
    if later == 0:
        return list(entries)
    return [EpochEntry(entries[later - 1].epoch, start_offset), *entries[later:]]


class EpochsWrite(NamedTuple):
    """The next content of the file, and the call that writes it, which may run on any thread."""

    number: int
    entries: tuple[EpochEntry, ...]
    run: Callable[[], None]


class LeaderEpochs:
    """Used only on the log's thread; the call that `plan_write` returns may run on another."""

    __slots__ = (
        "_deleted",
        "_disk",
        "_file",
        "_latest",
        "_latest_epoch",
        "_unwritten",
        "_written",
        "_written_number",
        "entries",
        "on_unwritten",
    )

    def __init__(self, disk: Disk, folder: str) -> None:
        self.entries: list[EpochEntry] = []
        # The epochs before them: their records are deleted, but a crash may bring them back.
        self._deleted: list[EpochEntry] = []
        self._latest_epoch = UNDEFINED_EPOCH
        self._latest = LatestWrite()
        self._unwritten = False
        # Called when the file is out of date.
        self.on_unwritten: Callable[[], object] | None = None
        # The content of the file, and the number of its write.
        self._written: tuple[EpochEntry, ...] = ()
        self._written_number = 0
        self._disk = disk
        self.moved_to(folder)

    def create(self) -> None:
        """Create an empty file."""
        self._file.create()

    def load(self) -> None:
        """Read the file, or create an empty one.  Raises DamagedFile if it cannot be parsed."""
        self._file.create()
        for entry in self._file.read():
            last = self.entries[-1] if self.entries else EpochEntry(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
            if entry.epoch <= last.epoch or entry.start_offset <= last.start_offset:
                raise DamagedFile(self._file.path, f"{_to_line(entry)!r} does not follow {_to_line(last)!r}")
            self._assign(entry)
        self._written = self._content()

    def moved_to(self, folder: str) -> None:
        """The log's folder was renamed."""
        self._file: CheckpointFile[EpochEntry] = CheckpointFile(
            self._disk, f"{folder}/{log_files.LEADER_EPOCHS}", CHECKPOINT_VERSION, _to_line, _from_line
        )

    @property
    def latest_epoch(self) -> int | None:
        return self.entries[-1].epoch if self.entries else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add the start offset of a leader epoch.

        It is written in the background or with the next flush if recovery, after an earlier crash, restores
        it from the batches.  So becoming the leader of ten thousand partitions waits for no syncs.
        """
        if epoch == self._latest_epoch and start_offset >= self.entries[-1].start_offset:
            return
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"({epoch}, {start_offset}) is not a valid leader epoch")
        before = list(self.entries)
        if not self._assign(EpochEntry(epoch, start_offset)):
            return
        # Every truncation drops the epoch of an empty log, and it is then assigned again.
        self._unwritten = self._written != self._content()
        if self._unwritten and not self._is_restorable(epoch):
            try:
                self._write()
            except OSError:
                # This leader cannot write either; a retry must not find the epoch already assigned.
                self._replace(before)
                raise
        self._report_unwritten()

    def _is_restorable(self, epoch: int) -> bool:
        """Whether `restore` makes the same entries of the file and the batches of the log.

        The first batch of an epoch shows that the file is wrong where it has another epoch from that very
        offset on.  A restart leaves such a file: of a leader that wrote nothing, or whose records were lost.
        """
        if not self._written or epoch > self._written[-1].epoch:
            return True
        content = self._content()
        first, starts = content[0], {entry.start_offset for entry in content}
        return all(
            # Or it is before the log start, which is known when the file is read again.
            entry.start_offset in starts
            or (entry.start_offset < first.start_offset and entry.epoch <= first.epoch)
            for entry in set(self._written).difference(content)
        )

    def restore(self, epoch: int, base_offset: int) -> None:
        """Called with every batch that recovery reads, in order."""
        if epoch == self._latest_epoch or epoch < 0:
            return
        if epoch < self._latest_epoch:
            # One lower epoch alone may be damaged: the CRC does not cover it.
            at = bisect_left(self.entries, base_offset, key=lambda entry: entry.start_offset)
            entry = self.entries[at] if at < len(self.entries) else None
            if entry is None or entry.start_offset != base_offset or entry.epoch == epoch:
                return
        self.assign(epoch, base_offset)

    def assign_all(self, entries: Iterable[tuple[int, int]]) -> None:
        """Add several entries with a single write."""
        for entry in entries:
            self._assign(EpochEntry(*entry))
        self._write()

    def _assign(self, entry: EpochEntry) -> bool:
        entries = self.entries
        if entries and entry.epoch == entries[-1].epoch and entry.start_offset >= entries[-1].start_offset:
            return False
        while entries and (
            entries[-1].epoch >= entry.epoch or entries[-1].start_offset >= entry.start_offset
        ):
            entries.pop()
        if not entries:
            self._drop_deleted(entry)
        entries.append(entry)
        self._latest_epoch = entry.epoch
        return True

    def _drop_deleted(self, first: EpochEntry) -> None:
        deleted = self._deleted
        while deleted and (deleted[-1].epoch > first.epoch or deleted[-1].start_offset >= first.start_offset):
            deleted.pop()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest known epoch not above the requested one, and its end offset."""
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_END
        if epoch == self.latest_epoch:
            return EpochEnd(epoch, log_end_offset)
        above = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        if above == len(self.entries):
            return UNDEFINED_END
        # An epoch before all known ones is returned as requested: its records were deleted, and it ended
        # where the first known epoch starts.
        found = self.entries[above - 1].epoch if above > 0 else epoch
        return EpochEnd(found, self.entries[above].start_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch of the leader that wrote this offset."""
        above = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[above - 1].epoch if above > 0 else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that start at this offset or later: the log was truncated to it.

        Written with the next epoch or on close: entries that reappear after a crash are dropped on load.
        """
        self._deleted = [entry for entry in self._deleted if entry.start_offset < end_offset]
        self._replace([entry for entry in self.entries if entry.start_offset < end_offset])

    def truncate_from_start(self, start_offset: int) -> None:
        """The log start offset advanced: the epoch at it now starts here; earlier ones are removed.

        The file keeps them until `start_is_durable`.
        """
        content, self.entries = self._content(), _cut(self.entries, start_offset)
        if self.entries:
            first = self.entries[0].start_offset
            self._deleted = [entry for entry in content if entry.start_offset < first]

    def start_is_durable(self, start_offset: int) -> None:
        """After a crash the log starts at this offset or later: the file no longer needs earlier epochs."""
        if self._deleted and start_offset > self._deleted[0].start_offset:
            first = self.entries[0].start_offset if self.entries else start_offset + 1
            cut = _cut(self._content(), start_offset)
            self._deleted = [entry for entry in cut if entry.start_offset < first]
            self._unwritten = True
            self._report_unwritten()

    def clear(self, *, write: bool = True) -> None:
        """Remove all entries; without `write`, the truncation or the next flush writes the file."""
        self._deleted = []
        self._replace([])
        if write:
            self._write()

    def undo_assign(self, entries: list[EpochEntry]) -> None:
        """Undo `assign`: the batches of the epochs could not be written."""
        self._replace(entries)

    def _replace(self, entries: list[EpochEntry]) -> None:
        if entries != self.entries:
            self.entries = entries
            self._latest_epoch = entries[-1].epoch if entries else UNDEFINED_EPOCH
            self._unwritten = True
            self._report_unwritten()

    def _content(self) -> tuple[EpochEntry, ...]:
        """What belongs in the file."""
        deleted, entries = self._deleted, self.entries
        if deleted and entries and deleted[-1].epoch == entries[0].epoch:
            entries = entries[1:]  # its first records are deleted
        return (*deleted, *entries)

    def _report_unwritten(self) -> None:
        if self._unwritten and self.on_unwritten is not None:
            self.on_unwritten()

    def write_out(self, *, sync: bool = True) -> None:
        """Write deferred changes to the file."""
        if self._unwritten:
            self._write(sync=sync)

    def plan_write(self) -> EpochsWrite | None:
        """The deferred changes, to be written by a worker; None if there are none.

        After the write, call `written`.
        """
        return self._plan(sync=True) if self._unwritten else None

    def written(self, write: EpochsWrite) -> None:
        """Called when a planned write is done, in any order: the file contains what was planned last."""
        if write.number > self._written_number:
            self._written_number = write.number
            self._written = write.entries
            self._unwritten = write.entries != self._content()

    def _plan(self, *, sync: bool) -> EpochsWrite:
        entries, file = self._content(), self._file
        run = self._latest.plan(lambda: file.write(entries, sync=sync))
        return EpochsWrite(self._latest.planned, entries, run)

    def _write(self, *, sync: bool = True) -> None:
        planned = self._plan(sync=sync)
        planned.run()
        self.written(planned)
