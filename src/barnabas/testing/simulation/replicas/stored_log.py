"""What a machine has of one replica: batches in the page cache, and what of it a power loss leaves.

Contains the bytes of a batch, and the files of a log as far as replication depends on them: batches,
`leader-epoch-checkpoint`, the two offset checkpoints, and which of these are synced.  The log of a running
broker is in memory_log.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.runtime.random import SeededRandom
from barnabas.storage.log.leader_epochs import EpochEntry

# Base offset, number of records, leader epoch, and the number that a producer gave the batch.
BATCH = struct.Struct(">qiiq")
# Log starts at which files end: retention removes whole files.
BATCHES_PER_FILE = 3


class Batch(NamedTuple):
    """A batch of records; all values in a world differ, so the value says which batch it is."""

    base_offset: int
    records: int
    epoch: int
    value: int

    @property
    def end(self) -> int:
        return self.base_offset + self.records


def encode(batches: Iterable[Batch]) -> bytes:
    return b"".join([BATCH.pack(*batch) for batch in batches])


class EpochsFile:
    """The content of `leader-epoch-checkpoint`, as `CheckpointFile` has it."""

    def __init__(self) -> None:
        self.content: tuple[EpochEntry, ...] = ()
        self._synced: tuple[EpochEntry, ...] = ()

    def create(self) -> None:
        """It is there from the first."""

    def read(self) -> list[EpochEntry]:
        return list(self.content)

    def write(self, entries: Iterable[EpochEntry], *, sync: bool = True) -> None:
        self.content = tuple(entries)
        if sync:
            self._synced = self.content

    def power_loss(self) -> None:
        self.content = self._synced


class StoredLog:
    """One replica's files."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        # Where the log begins if it has no batches.
        self.first_offset = 0
        # All before is on the device; a flush that began before a truncation counts up to that.
        self.synced_end = 0
        # What recovery starts to read at.
        self.recovery_checkpoint = 0
        self.high_watermark_checkpoint = 0
        self.log_start_checkpoint = 0
        self.epochs = EpochsFile()
        # Batches that are truncated, or removed at the start, in the page cache only.
        self.truncated: list[Batch] = []
        self.removed: list[Batch] = []
        # Set by a power loss until the controller has taken note of it: a replica that lacks records.
        self.lost_from: int | None = None

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end if self.batches else self.first_offset

    @property
    def start_offset(self) -> int:
        return self.batches[0].base_offset if self.batches else self.first_offset

    def power_loss(self, random: SeededRandom) -> None:
        """Whatever is not synced is lost, or not, up to any batch."""
        self.epochs.power_loss()
        if self.removed and random.integer(0, 1):
            self.batches[:0] = self.removed
        before = self.end_offset
        if self.truncated and random.integer(0, 1):
            # The truncation is lost, and with it what came after.
            first = self.truncated[0].base_offset
            self.batches = [batch for batch in self.batches if batch.end <= first] + self.truncated
        self.removed, self.truncated = [], []
        unsynced = [batch for batch in self.batches if batch.end > self.synced_end]
        kept = random.integer(0, len(unsynced))
        if kept < len(unsynced):
            del self.batches[len(self.batches) - (len(unsynced) - kept) :]
            if not self.batches:
                self.first_offset = unsynced[0].base_offset
        if self.end_offset < before:
            self.lost_from = self.end_offset
