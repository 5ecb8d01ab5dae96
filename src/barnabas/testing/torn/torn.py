"""Damaged files: folders are damaged at random, opened as a broker opens them, and checked.

Contains one round, and many.  The content of a folder belongs in folders.py, the damage in damage.py, and the
expected result in checker.py.

A round is determined by its seed alone.  It damages one or two files and opens the folder.  Either startup
fails with one line that names the file, and nothing was destroyed; or every log is as the checker requires,
accepts a new batch, and opens again after a clean shutdown with nothing to repair.

A batch with a bad CRC is never returned, not even where CRCs are not checked at startup.  After a clean
shutdown only the last batches of a log are read, as in Apache Kafka, or startup time would grow with the
data.  Apache Kafka then sends a batch that went bad unchanged, and leaves it to the consumer to detect it.
Here `Log.read` checks each batch from before the restart when it is first read
(storage/segment/segment_search.py): a reader gets all batches before the bad one, gets CORRUPT_MESSAGE for
that one, and can continue after it.  Batches that this process has written itself, or read during recovery,
were checked then, and are sent unread. Timestamp lookups, the cleaner and producer replay use the same check.

Not detectable: offset and leader epoch of a batch are not covered by its CRC, and checkpoints, leader epochs
and the index of aborted transactions have none; a wrong value that fits is believed.
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
from barnabas.storage.log import log_files
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log_manager import LogManager
from barnabas.storage.refused import StorageRefused
from barnabas.storage.segment import segment_indexes
from barnabas.testing.torn.checker import LogChecker, Served, TornFault, committed_values, served
from barnabas.testing.torn.damage import Wound, draw_wound
from barnabas.testing.torn.folders import CLEANER_STEPS, DATA, START_MS, TABLE, DataFolder, open_manager

# One round in this many damages two files; one in this many is disturbed after the first start.
TWO_WOUNDS_IN = 4
DISTURBED_IN = 4
# No file of these folders is longer, so no read or truncation may be larger.
MAX_READ_BYTES = 64 * 1024
# Far more reads than any round needs: reaching it means an endless loop.
MAX_READS = 50_000


class Outcome(StrEnum):
    """How a round ended."""

    UNTOUCHED = "untouched"
    RECOVERED = "recovered"
    REFUSED = "refused"
    READER = "left to readers"


class WatchedFile(SimulatedFile):
    """Checks that no read exceeds the files, and that reading ends."""

    __slots__ = ()

    def read_at(self, offset: int, length: int) -> bytes:
        if length > MAX_READ_BYTES:
            raise TornFault(f"{self.path}: {length} bytes are read at once")
        assert isinstance(self._disk, WatchedDisk)
        self._disk.reads += 1
        if self._disk.reads > MAX_READS:
            raise TornFault(f"{self.path}: is read endlessly")
        return super().read_at(offset, length)

    def truncate(self, size: int) -> None:
        if size > MAX_READ_BYTES:
            raise TornFault(f"{self.path}: is to be set to {size} bytes")
        super().truncate(size)


class WatchedDisk(SimulatedDisk):
    """A simulated disk with watched files."""

    reads = 0

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> SimulatedFile:
        file = super().open(path, create=create, writable=writable)
        return WatchedFile(self, file._content, writable=writable)


@dataclass(frozen=True, slots=True)
class RoundReport:
    """The damage of a round and its result."""

    seed: int
    folder: str
    wounds: Sequence[Wound]
    outcome: Outcome
    logged: Sequence[str] = ()

    @property
    def counts(self) -> list[tuple[str, Outcome]]:
        """The rows of a summary: each kind of file that was damaged, with the outcome."""
        return [(kind, self.outcome) for kind in sorted({wound.kind for wound in self.wounds})]

    def __str__(self) -> str:
        lines = [f"round {self.seed}, folder {self.folder}: {self.outcome}"]
        lines += [f"  damage: {wound}" for wound in self.wounds]
        return "\n".join(lines + [f"  storage logged: {line}" for line in self.logged])


@dataclass(slots=True)
class Round:
    """One folder, damaged once."""

    seed: int
    folder: DataFolder
    wounds: list[Wound] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)

    def run(self) -> RoundReport:
        random = SeededRandom(self.seed)
        disk = WatchedDisk(random, wall_ms=lambda: START_MS)
        disk.restore(self.folder.snapshot)
        self._tear(disk, random)
        try:
            outcome = self._check(disk, random)
        except Exception as error:
            raise TornFault(self._complaint(error)) from error
        return RoundReport(self.seed, self.folder.name, self.wounds, outcome, self.logged)

    def _complaint(self, error: Exception) -> str:
        kind = "" if isinstance(error, TornFault) else f"{type(error).__name__}: "
        wounds = "; ".join(map(str, self.wounds))
        return (
            f"{kind}{error}\n  folder: {self.folder.name}\n  damage: {wounds}\n"
            f"  storage logged: {self.logged}\n  again: python -m tools.torn --rounds 1 --seed {self.seed}"
        )

    def _tear(self, disk: SimulatedDisk, random: SeededRandom) -> None:
        files = dict(self.folder.files)
        for _ in range(2 if random.integer(1, TWO_WOUNDS_IN) == 1 else 1):
            wound = draw_wound(random, files)
            del files[wound.path]
            self.wounds.append(wound)
            put(disk, wound.path, wound.after)

    def _check(self, disk: SimulatedDisk, random: SeededRandom) -> Outcome:
        with listening(self.logged):
            try:
                manager = open_manager(disk)
            except StorageRefused as refusal:
                self._check_refusal(disk, refusal)
                return Outcome.REFUSED
            checkers = {
                partition: LogChecker(content, self.wounds, clean=self.folder.clean)
                for partition, content in self.folder.contents.items()
            }
            if manager.logs.keys() != checkers.keys():
                raise TornFault(f"the folder has the logs {list(manager.logs)}, not {list(checkers)}")
            found = {
                partition: checker.check(manager.logs[partition], random)
                for partition, checker in checkers.items()
            }
            manager = self._disturb(disk, manager, checkers, found, random)
            self._append_and_stop(disk, manager, checkers, found)
        self._start_again(disk, checkers, found)
        if any(result.refusals for result in found.values()):
            return Outcome.READER
        whole = all(
            found[partition].batches[:-1] == content.visible
            for partition, content in self.folder.contents.items()
        )
        return Outcome.UNTOUCHED if whole and not self.logged else Outcome.RECOVERED

    def _check_refusal(self, disk: SimulatedDisk, refusal: StorageRefused) -> None:
        """One line that names the file; and once the file is restored, everything is there."""
        line = str(refusal)
        names = [wound.path.rpartition("/")[2] for wound in self.wounds]
        if "\n" in line or not line.isprintable() or not any(name in line for name in names):
            raise TornFault(f"the error does not name a damaged file in one line: {line!r}")
        if any(wound.kind == log_files.LOG for wound in self.wounds):
            return
        disk.restart()
        for wound in self.wounds:
            put(disk, wound.path, wound.before)
        manager = open_manager(disk)
        for partition, content in self.folder.contents.items():
            remaining = served(manager.logs[partition], ()).batches
            if remaining != content.visible:
                raise TornFault(f"startup failed, and yet something of {partition} was lost")

    def _disturb(
        self,
        disk: SimulatedDisk,
        manager: LogManager,
        checkers: dict[TopicPartition, LogChecker],
        found: dict[TopicPartition, Served],
        random: SeededRandom,
    ) -> LogManager:
        """Sometimes the process is killed again at once, or compacts the log."""
        drawn = random.integer(0, DISTURBED_IN - 1)
        if drawn == 0 and not self.folder.clean:
            disk.restart()
            manager = open_manager(disk)
            for partition, log in manager.logs.items():
                again = served(log, checkers[partition].known_offsets)
                if again.batches != found[partition].batches:
                    raise TornFault(f"{partition} is not the same after another crash")
        elif drawn == 1 and TABLE in manager.logs:
            log = manager.logs[TABLE]
            before = committed_values(log, found[TABLE])
            self._compact(manager)
            found[TABLE] = served(log, checkers[TABLE].known_offsets)
            if committed_values(log, found[TABLE]) != before:
                raise TornFault(f"compaction of {TABLE} changed the values of its keys")
        return manager

    def _compact(self, manager: LogManager) -> None:
        assert manager.cleaner is not None
        manager.logs[TABLE].set_high_watermark(manager.logs[TABLE].end_offset)
        for _ in range(CLEANER_STEPS):
            manager.cleaner.step()
        if manager.cleaner.uncleanable and not any(wound.is_in(TABLE) for wound in self.wounds):
            raise TornFault("the cleaner has given up on an undamaged log")

    def _append_and_stop(
        self,
        disk: SimulatedDisk,
        manager: LogManager,
        checkers: dict[TopicPartition, LogChecker],
        found: dict[TopicPartition, Served],
    ) -> None:
        """Whatever was lost, the log accepts new batches."""
        for partition, log in manager.logs.items():
            batch = build([Record(0, START_MS, b"new", b"new")])
            result = log.append_as_leader(batch, (log.epochs.latest_epoch or 0) + 1)
            checkers[partition].known_offsets.append(result.first_offset)
            found[partition].batches.append(bytes(batch))
        manager.checkpoint_high_watermarks(DATA)
        manager.close()
        disk.restart()

    def _start_again(
        self,
        disk: SimulatedDisk,
        checkers: dict[TopicPartition, LogChecker],
        found: dict[TopicPartition, Served],
    ) -> None:
        """After a clean shutdown everything is unchanged, and there is nothing to repair."""
        logged: list[str] = []
        with listening(logged):
            manager = open_manager(disk)
            repairs = [line for line in logged if not line.endswith(segment_indexes.BATCHES_ARE_DAMAGED)]
            if repairs:
                raise TornFault(f"the second start had something to repair: {repairs}")
            for partition, log in manager.logs.items():
                remaining = served(log, checkers[partition].known_offsets)
                if remaining.batches != found[partition].batches:
                    raise TornFault(f"{partition} is not the same after a clean stop")


def put(disk: SimulatedDisk, path: str, data: bytes | None) -> None:
    """Set the content of a file, or delete it."""
    disk.remove(path)
    if data is not None:
        file = disk.open(path, create=True)
        file.append((data,))
        file.sync()
        file.close()


class _Handler(logging.Handler):
    def __init__(self, logged: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._logged = logged

    def emit(self, record: logging.LogRecord) -> None:
        self._logged.append(record.getMessage())


@contextmanager
def listening(logged: list[str]) -> Iterator[None]:
    """Collect the warnings of storage, without propagating them."""
    logger = logging.getLogger("barnabas.storage")
    handler, propagate = _Handler(logged), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


def run_round(seed: int, folders: Sequence[DataFolder]) -> RoundReport:
    """The round of a seed; TornFault says what went wrong and how to reproduce it."""
    return Round(seed, folders[seed % len(folders)]).run()
