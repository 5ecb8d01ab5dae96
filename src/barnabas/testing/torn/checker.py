"""What must remain of a log whose files were damaged.

Contains the comparison of an opened log with the content of its folder before the damage.  Damaging belongs
in damage.py, opening the folder in torn.py.

  - A batch that is read has a valid CRC and was written as such.  Its offset and its leader epoch are not
    covered by the CRC: damage to these that still fits their neighbours cannot be detected.
  - Every batch before the first damaged one is read.  If no `.log` was damaged, every batch is.
  - After a clean shutdown, and below the recovery point, a log is not read at startup: other segments than
  the
    damaged one keep all their batches, and a reader that reaches a damaged batch gets an error.
  - Everything above the recovery point is read after a crash: readers get no errors there.
  - Offsets and timestamps are found where they are, whatever the indexes say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from barnabas.batch.view import BatchView, CorruptBatch, batches
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import Random
from barnabas.storage.directories.checkpoints import (
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
)
from barnabas.storage.directories.clean_shutdown import CLEAN_SHUTDOWN_FILE
from barnabas.storage.log import log_files
from barnabas.storage.log.leader_epochs import LeaderEpochs
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.refused import DamagedFile
from barnabas.testing.torn.damage import Wound
from barnabas.testing.torn.folders import LATE, TABLE, Content, producers_of

READ_BYTES = 1 << 20
# Offsets and timestamps that are looked up in one log.
LOOKUPS = 6
UNCHECKED_OFFSET = slice(0, 8)
UNCHECKED_EPOCH = slice(12, 16)
# Files of a whole directory that decide whether and from where its logs are read at startup.
START_FILES = frozenset((CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_CHECKPOINT))


class TornFault(AssertionError):
    """Storage handled a damaged folder in a wrong way."""


@dataclass(slots=True)
class Served:
    """What readers get from a log: batches, and offsets at which they get an error."""

    batches: list[bytes] = field(default_factory=list)
    refusals: list[tuple[int, str]] = field(default_factory=list)


def served(log: Log, known_offsets: Sequence[int]) -> Served:
    """Read all of a log; after an error continue at the next offset at which a batch began before the
    damage."""
    reads = Served()
    offset, last_offset = log.log_start_offset, -1
    while offset < log.end_offset:
        try:
            result = log.read(offset, READ_BYTES, upper_bound=log.end_offset)
        except CorruptBatch as error:
            reads.refusals.append((offset, str(error)))
            offset = next((known for known in known_offsets if known > offset), log.end_offset)
            continue
        if result.slice is None:
            break
        for batch, is_valid in parsed(result.slice.read()):
            base_offset, last = offsets_of(batch)
            if not is_valid:
                raise TornFault(f"{log.name}: the batch at {base_offset} was read with a wrong CRC")
            if base_offset <= last_offset:
                raise TornFault(f"{log.name}: offset {base_offset} was read after {last_offset}")
            reads.batches.append(batch)
            last_offset = last
        if offset > last_offset:
            raise TornFault(f"{log.name}: read from {offset}, but the batches end at {last_offset}")
        offset = last_offset + 1
    return reads


# Most rounds read most batches unchanged: each is parsed only once.


@lru_cache(maxsize=1024)
def parsed(data: bytes) -> list[tuple[bytes, bool]]:
    """The batches of a slice, and whether their CRCs are valid."""
    return [(batch.copy(), batch.crc_ok()) for batch in batches(data)]


@lru_cache(maxsize=4096)
def offsets_of(batch: bytes) -> tuple[int, int]:
    """First and last."""
    view = BatchView(batch)
    return view.base_offset, view.last_offset


@lru_cache(maxsize=4096)
def times_of(batch: bytes) -> tuple[tuple[int, int], ...]:
    """(offset, timestamp) of each record."""
    return tuple((record.offset, record.timestamp) for record in BatchView(batch).records())


def committed_values(log: Log, result: Served) -> dict[bytes, bytes | None]:
    """The last committed value of each key, as far as readers get it."""
    aborted = log.aborted_transactions(log.log_start_offset, log.end_offset)
    values: dict[bytes, bytes | None] = {}
    for batch in map(BatchView, result.batches):
        if batch.is_control or any(
            batch.producer_id == txn.producer_id and txn.first_offset <= batch.base_offset <= txn.last_offset
            for txn in aborted
        ):
            continue
        values.update((record.key, record.value) for record in batch.records() if record.key is not None)
    return values


@lru_cache(maxsize=4096)
def without_place(batch: bytes) -> bytes:
    """The part of the batch that its length and its CRC cover."""
    plain = bytearray(batch)
    plain[UNCHECKED_OFFSET], plain[UNCHECKED_EPOCH] = bytes(8), bytes(4)
    return bytes(plain)


class LogChecker:
    """Checks one log of a damaged folder."""

    def __init__(self, content: Content, wounds: Sequence[Wound], *, clean: bool) -> None:
        self.content = content
        self.wounds = [wound for wound in wounds if wound.is_in(content.partition)]
        self.start_files = [wound for wound in wounds if wound.kind in START_FILES]
        self.log_starts = [wound for wound in wounds if wound.kind == LOG_START_CHECKPOINT]
        self.hit = {
            offset: wound
            for wound in self.wounds
            if wound.kind == log_files.LOG and (offset := _offset(wound)) is not None
        }
        self.clean = clean
        self.known_offsets = [offsets_of(data)[0] for _, _, data in content.batches()]

    def kinds(self) -> set[str]:
        return {wound.kind for wound in self.wounds}

    def check(self, log: Log, random: Random) -> Served:
        """Checks everything of a log that was just opened; returns what its readers get."""
        found = served(log, self.known_offsets)
        self._check_ends(log)
        if self.hit:
            self._check_damaged(log, found)
        else:
            self._check_whole(log, found)
        self._check_offsets(log, found, random)
        self._check_times(log, found, random)
        return found

    # The bounds

    def _check_ends(self, log: Log) -> None:
        content = self.content
        if self.hit:
            return
        if log.end_offset != content.end_offset:
            raise self._fault(f"ends at {log.end_offset}, not at {content.end_offset}")
        starts = {content.log_start_offset}
        if self.log_starts:
            first = next(iter(content.segments))
            stored = _log_start(self.log_starts[0], content.partition)
            starts = {first if stored is None or not first <= stored <= content.end_offset else stored}
        if log.log_start_offset not in starts:
            raise self._fault(f"starts at {log.log_start_offset}, not at {starts}")

    # The batches

    def _check_whole(self, log: Log, found: Served) -> None:
        """No batch was damaged: all are read."""
        if found.refusals:
            raise self._fault(f"its log is undamaged, but readers get errors: {found.refusals}")
        expected = [data for data in self._all() if offsets_of(data)[1] >= log.log_start_offset]
        if found.batches != expected:
            raise self._fault(f"reads {_offsets(found.batches)}, not {_offsets(expected)}")
        self._check_aborted(log)
        if not self.log_starts and producers_of(log) != self.content.producers:
            raise self._fault(f"knows the producers {producers_of(log)}, not {self.content.producers}")
        self._check_epochs(log)

    def _check_aborted(self, log: Log) -> None:
        """Of transactions with remaining records; a damaged index of them cannot be detected."""
        aborted = {entry[:3] for entry in log.aborted_transactions(log.log_start_offset, log.end_offset)}
        if any(not 0 <= first <= last < log.end_offset for _, first, last in aborted):
            raise self._fault(f"cannot have aborted {sorted(aborted)}")
        if not self.log_starts and log_files.TRANSACTION_INDEX not in self.kinds():
            missing, foreign = self.content.aborted - aborted, aborted - self.content.all_aborted
            if missing or foreign:
                raise self._fault(f"aborted are {sorted(aborted)}, not {sorted(self.content.aborted)}")

    def _check_epochs(self, log: Log) -> None:
        if self.log_starts or any(_says_epochs(wound) for wound in self.wounds):
            return
        if log.epochs.entries == self.content.epochs:
            return
        for batch in map(BatchView, self.content.visible):
            epoch = log.epochs.epoch_for_offset(max(batch.base_offset, log.log_start_offset))
            if epoch != batch.leader_epoch:
                raise self._fault(f"has the leader epochs {log.epochs.entries}, not {self.content.epochs}")

    def _all(self) -> Iterator[bytes]:
        return (data for _, _, data in self.content.batches())

    def _check_damaged(self, log: Log, found: Served) -> None:
        """Some batches were damaged: none of them is read, and no more is lost than necessary."""
        known = set(self._all())
        if foreign := [data for data in found.batches if data not in known]:
            twins = {without_place(data) for data in known}
            if not all(without_place(data) in twins for data in foreign):
                raise self._fault(f"reads batches that were never written: {_offsets(foreign)}")
        expected = [data for data in self._must_be_there() if self._is_visible(data, log)]
        there = set(found.batches)
        if missing := [data for data in expected if data not in there]:
            raise self._fault(f"the batches at {_offsets(missing)} are valid and not read")
        if found.refusals and self._all_was_read_at_start():
            raise self._fault(f"was recovered, but readers get errors: {found.refusals}")

    def _is_visible(self, data: bytes, log: Log) -> bool:
        return offsets_of(data)[1] >= max(log.log_start_offset, self.content.log_start_offset)

    def _must_be_there(self) -> Iterator[bytes]:
        """Batches before the first damaged one; and all of later segments unless they are truncated too."""
        damaged = False
        for base_offset, rows in self.content.segments.items():
            wound = self.hit.get(base_offset)
            if wound is None:
                if not damaged or self._keeps_later_segments():
                    yield from (data for _, data in rows)
                continue
            if not damaged:
                yield from (data for position, data in rows if position + len(data) <= wound.first)
            # In a compacted log it is unknown whether what follows its batches was one of them.
            is_tail = wound.first >= sum(len(data) for _, data in rows) and wound.after is not None
            damaged = damaged or not is_tail or self.content.partition == TABLE

    def _unflushed(self) -> int:
        """The base offset of the first segment that is read after a crash."""
        bases = list(self.content.segments)
        return max((base for base in bases if base <= self.content.recovery_point), default=bases[0])

    def _keeps_later_segments(self) -> bool:
        if self.start_files or self.log_starts:
            return False
        return self.clean or max(self.hit) < self._unflushed()

    def _all_was_read_at_start(self) -> bool:
        return not self.clean and not self.start_files and min(self.hit) >= self._unflushed()

    # Looking up

    def _sample(self, found: Served, random: Random) -> Iterable[bytes]:
        for _ in range(min(LOOKUPS, len(found.batches))):
            yield found.batches[random.integer(0, len(found.batches) - 1)]

    def _check_offsets(self, log: Log, found: Served, random: Random) -> None:
        """Every batch is found by an offset within it."""
        for data in self._sample(found, random):
            offset = max(log.log_start_offset, offsets_of(data)[1])
            try:
                result = log.read(offset, 1, upper_bound=log.end_offset)
            except CorruptBatch:
                if not self.hit:
                    raise
                continue  # beyond a damaged batch, and the index was damaged too
            if result.slice is None or result.slice.read() != data:
                raise self._fault(f"offset {offset} is not found in its batch")

    def _check_times(self, log: Log, found: Served, random: Random) -> None:
        """A timestamp leads to the first record that is not earlier."""
        records = [row for data in found.batches for row in times_of(data) if row[0] >= log.log_start_offset]
        for data in self._sample(found, random):
            timestamp = BatchView(data).max_timestamp - random.integer(0, 1)
            try:
                answer = log.offset_for_time(timestamp)
            except CorruptBatch:
                if not self.hit:
                    raise
                continue
            expected = next((row for row in records if row[1] >= timestamp), None)
            have = None if answer is None else (answer.offset, answer.timestamp)
            if have == expected or (have is not None and have in records and self._may_be_later()):
                continue
            raise self._fault(f"time {timestamp} is found at {have}, not at {expected}")

    def _may_be_later(self) -> bool:
        """Where timestamps do not ascend, a lost entry of the time index may hide the first matching
        record."""
        return self.content.partition == LATE and log_files.TIME_INDEX in self.kinds()

    def _fault(self, problem: str) -> TornFault:
        return TornFault(f"{self.content.partition} {problem}")


def _on_a_disk(wound: Wound) -> Disk:
    disk = MemoryDisk()
    if wound.after is not None:
        disk.write_atomically("/" + wound.kind, wound.after)
    return disk


def _log_start(wound: Wound, partition: TopicPartition) -> int | None:
    """The value in the damaged checkpoint, which cannot be distinguished from a correct one."""
    try:
        return OffsetCheckpoint(_on_a_disk(wound), "", wound.kind).read().get(partition)
    except DamagedFile:
        return None


def _says_epochs(wound: Wound) -> bool:
    """Whether it is a file of leader epochs whose damage cannot be detected."""
    if wound.kind != log_files.LEADER_EPOCHS:
        return False
    epochs = LeaderEpochs(_on_a_disk(wound), "")
    try:
        epochs.load()
    except DamagedFile:
        return False
    return bool(epochs.entries)


def _offset(wound: Wound) -> int | None:
    return log_files.offset_in(wound.path.rpartition("/")[2])


def _offsets(batches: Iterable[bytes]) -> list[int]:
    return [offsets_of(data)[0] for data in batches]
