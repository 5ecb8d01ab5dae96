"""Damaged files: folders are torn at random, opened as a broker opens them, and what is left is judged.

What lives here: one round, and many.  What may not: what a round's folder holds (torn_folders.py), what is
done to it (torn_damage.py), and what must be left (torn_judge.py).

A round is drawn from its seed alone.  It damages one or two files and opens the folder.  Either the start is
refused with one line that names the place, and nothing was destroyed; or every log is as the judge wants it,
takes a new batch, and opens again after a clean stop with nothing left to repair.

A bad CRC is never returned, not even where it is not looked for at start.  After a clean stop a log is not
read again but for its last batches, as in Apache Kafka, or starting would take the longer the more there is.
Apache Kafka then sends a batch that went bad as it is, and leaves it to the consumer to notice.  Here
`Log.read` checks each batch of an earlier life when it is read for the first time (segment_search.py): a
reader gets all batches before the bad one, is refused that one with CORRUPT_MESSAGE, and can go on behind it.
What this process has written itself, or read during recovery, was checked then, and goes out unread as ever.
Times, the cleaner and the replay of producers go through the same check.

What no check can tell: offset and leader epoch of a batch lie outside its CRC, and checkpoints, leader epochs
and the index of aborted transactions have none; a value in them that is wrong and yet fits is believed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk, SimulatedFile
from barnabas.storage import segment_indexes
from barnabas.storage.log import log_files
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log_manager import LogManager
from barnabas.storage.refused import StorageRefused
from barnabas.testing.torn.checker import Judge, Served, TornFault, committed_values, served
from barnabas.testing.torn.damage import Wound, draw_wound
from barnabas.testing.torn.folders import CLEANER_STEPS, DATA, START_MS, TABLE, DataFolder, open_manager

# One in so many rounds damages two files; one in so many is disturbed after the first start.
TWO_WOUNDS_IN = 4
DISTURBED_IN = 4
# No file of these folders is longer, so nothing may be asked for that is.
MAX_READ_BYTES = 64 * 1024
# Far more than any round needs: whoever reads on is caught in a loop.
MAX_READS = 50_000


class Outcome(StrEnum):
    """How a round ended."""

    UNTOUCHED = "untouched"
    RECOVERED = "recovered"
    REFUSED = "refused"
    READER = "left to readers"


class WatchedFile(SimulatedFile):
    """Sees that nobody asks for more than the files hold, and that everybody comes to an end."""

    __slots__ = ()

    def read_at(self, offset: int, length: int) -> bytes:
        if length > MAX_READ_BYTES:
            raise TornFault(f"{self.path}: {length} bytes are asked for at once")
        assert isinstance(self._disk, WatchedDisk)
        self._disk.reads += 1
        if self._disk.reads > MAX_READS:
            raise TornFault(f"{self.path}: is read and read, and there is no end to it")
        return super().read_at(offset, length)

    def truncate(self, size: int) -> None:
        if size > MAX_READ_BYTES:
            raise TornFault(f"{self.path}: is to have {size} bytes")
        super().truncate(size)


class WatchedDisk(SimulatedDisk):
    """A simulated disk whose files are watched."""

    reads = 0

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> SimulatedFile:
        file = super().open(path, create=create, writable=writable)
        return WatchedFile(self, file._content, writable=writable)


@dataclass(frozen=True, slots=True)
class RoundReport:
    """What was done in a round and what came of it."""

    seed: int
    folder: str
    wounds: Sequence[Wound]
    outcome: Outcome
    said: Sequence[str] = ()

    @property
    def counts(self) -> list[tuple[str, Outcome]]:
        """What a summary counts: each kind of file that was damaged, with how it ended."""
        return [(kind, self.outcome) for kind in sorted({wound.kind for wound in self.wounds})]

    def __str__(self) -> str:
        lines = [f"round {self.seed}, folder {self.folder}: {self.outcome}"]
        lines += [f"  damage: {wound}" for wound in self.wounds]
        return "\n".join(lines + [f"  storage said: {line}" for line in self.said])


@dataclass(slots=True)
class Round:
    """One folder, damaged once."""

    seed: int
    folder: DataFolder
    wounds: list[Wound] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def run(self) -> RoundReport:
        random = SeededRandom(self.seed)
        disk = WatchedDisk(random, wall_ms=lambda: START_MS)
        disk.restore(self.folder.snapshot)
        self._tear(disk, random)
        try:
            outcome = self._judge(disk, random)
        except Exception as error:
            raise TornFault(self._complaint(error)) from error
        return RoundReport(self.seed, self.folder.name, self.wounds, outcome, self.said)

    def _complaint(self, error: Exception) -> str:
        kind = "" if isinstance(error, TornFault) else f"{type(error).__name__}: "
        wounds = "; ".join(map(str, self.wounds))
        return (
            f"{kind}{error}\n  folder: {self.folder.name}\n  damage: {wounds}\n"
            f"  storage said: {self.said}\n  again: python -m tools.torn --rounds 1 --seed {self.seed}"
        )

    def _tear(self, disk: SimulatedDisk, random: SeededRandom) -> None:
        files = dict(self.folder.files)
        for _ in range(2 if random.integer(1, TWO_WOUNDS_IN) == 1 else 1):
            wound = draw_wound(random, files)
            del files[wound.path]
            self.wounds.append(wound)
            put(disk, wound.path, wound.after)

    def _judge(self, disk: SimulatedDisk, random: SeededRandom) -> Outcome:
        with listening(self.said):
            try:
                manager = open_manager(disk)
            except StorageRefused as refusal:
                self._check_refusal(disk, refusal)
                return Outcome.REFUSED
            judges = {
                partition: Judge(content, self.wounds, clean=self.folder.clean)
                for partition, content in self.folder.contents.items()
            }
            if manager.logs.keys() != judges.keys():
                raise TornFault(f"the folder has the logs {list(manager.logs)}, not {list(judges)}")
            found = {
                partition: judge.check(manager.logs[partition], random) for partition, judge in judges.items()
            }
            manager = self._disturb(disk, manager, judges, found, random)
            self._append_and_stop(disk, manager, judges, found)
        self._start_again(disk, judges, found)
        if any(one.refusals for one in found.values()):
            return Outcome.READER
        whole = all(
            found[partition].batches[:-1] == content.visible
            for partition, content in self.folder.contents.items()
        )
        return Outcome.UNTOUCHED if whole and not self.said else Outcome.RECOVERED

    def _check_refusal(self, disk: SimulatedDisk, refusal: StorageRefused) -> None:
        """One line that names the place; and once the file is put back, everything is there."""
        line = str(refusal)
        names = [wound.path.rpartition("/")[2] for wound in self.wounds]
        if "\n" in line or not line.isprintable() or not any(name in line for name in names):
            raise TornFault(f"the refusal does not name a damaged file in one line: {line!r}")
        if any(wound.kind == log_files.LOG for wound in self.wounds):
            return
        disk.restart()
        for wound in self.wounds:
            put(disk, wound.path, wound.before)
        manager = open_manager(disk)
        for partition, content in self.folder.contents.items():
            left = served(manager.logs[partition], ()).batches
            if left != content.visible:
                raise TornFault(f"the start was refused, and yet something of {partition} is gone")

    def _disturb(
        self,
        disk: SimulatedDisk,
        manager: LogManager,
        judges: dict[TopicPartition, Judge],
        found: dict[TopicPartition, Served],
        random: SeededRandom,
    ) -> LogManager:
        """Now and then the process is killed again at once, or compacts what there is to compact."""
        drawn = random.integer(0, DISTURBED_IN - 1)
        if drawn == 0 and not self.folder.clean:
            disk.restart()
            manager = open_manager(disk)
            for partition, log in manager.logs.items():
                again = served(log, judges[partition].known_offsets)
                if again.batches != found[partition].batches:
                    raise TornFault(f"{partition} is not the same after another crash")
        elif drawn == 1 and TABLE in manager.logs:
            log = manager.logs[TABLE]
            before = committed_values(log, found[TABLE])
            self._compact(manager)
            found[TABLE] = served(log, judges[TABLE].known_offsets)
            if committed_values(log, found[TABLE]) != before:
                raise TornFault(f"compaction of {TABLE} changed what its keys stand for")
        return manager

    def _compact(self, manager: LogManager) -> None:
        assert manager.cleaner is not None
        manager.logs[TABLE].set_high_watermark(manager.logs[TABLE].end_offset)
        for _ in range(CLEANER_STEPS):
            manager.cleaner.step()
        if manager.cleaner.uncleanable and not any(wound.is_in(TABLE) for wound in self.wounds):
            raise TornFault("the cleaner has given up on a log that is whole")

    def _append_and_stop(
        self,
        disk: SimulatedDisk,
        manager: LogManager,
        judges: dict[TopicPartition, Judge],
        found: dict[TopicPartition, Served],
    ) -> None:
        """Whatever was lost, the log goes on."""
        for partition, log in manager.logs.items():
            batch = build([Record(0, START_MS, b"new", b"new")])
            result = log.append_as_leader(batch, (log.epochs.latest_epoch or 0) + 1)
            judges[partition].known_offsets.append(result.first_offset)
            found[partition].batches.append(bytes(batch))
        manager.checkpoint_high_watermarks(DATA)
        manager.close()
        disk.restart()

    def _start_again(
        self,
        disk: SimulatedDisk,
        judges: dict[TopicPartition, Judge],
        found: dict[TopicPartition, Served],
    ) -> None:
        """After a clean stop all is as it was, and there is nothing left to repair."""
        said: list[str] = []
        with listening(said):
            manager = open_manager(disk)
            repairs = [line for line in said if not line.endswith(segment_indexes.BATCHES_ARE_DAMAGED)]
            if repairs:
                raise TornFault(f"the second start had something to repair: {repairs}")
            for partition, log in manager.logs.items():
                left = served(log, judges[partition].known_offsets)
                if left.batches != found[partition].batches:
                    raise TornFault(f"{partition} is not the same after a clean stop")


def put(disk: SimulatedDisk, path: str, data: bytes | None) -> None:
    """Give a file this content, or take it away."""
    disk.remove(path)
    if data is not None:
        file = disk.open(path, create=True)
        file.append((data,))
        file.sync()
        file.close()


class _Ear(logging.Handler):
    def __init__(self, said: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(record.getMessage())


@contextmanager
def listening(said: list[str]) -> Iterator[None]:
    """Collect the warnings of storage, and keep them from everyone else."""
    logger = logging.getLogger("barnabas.storage")
    ear, propagate = _Ear(said), logger.propagate
    logger.addHandler(ear)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(ear)
        logger.propagate = propagate


def run_round(seed: int, folders: Sequence[DataFolder]) -> RoundReport:
    """The round of a seed; TornFault says what went wrong and how to see it again."""
    return Round(seed, folders[seed % len(folders)]).run()
