"""The positions of a node's log: where it starts and ends, and which epochs wrote it (KIP-595, KIP-630).

Contains no records: the files belong in the broker.  A leader compares a follower's position with its own log
here, and a follower finds here where to truncate.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from barnabas.raft.snapshot import FIRST_SNAPSHOT, SnapshotId

FIRST_OFFSET = 0
NO_EPOCH = 0


class OffsetAndEpoch(NamedTuple):
    """The end of a log, or of an epoch in it."""

    offset: int
    epoch: int

    def is_up_to_date_with(self, other: OffsetAndEpoch) -> bool:
        """The Raft paper's comparison (section 5.4.1): the later epoch wins, then the longer log."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


@dataclass(frozen=True, slots=True)
class Valid:
    """The follower's log is a prefix of the leader's."""


@dataclass(frozen=True, slots=True)
class Diverging:
    """The follower's log differs: this is the end of the largest epoch that both may share."""

    end: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class NeedsSnapshot:
    """The leader no longer has the records; the follower must fetch this snapshot."""

    snapshot: SnapshotId


Validation: TypeAlias = Valid | Diverging | NeedsSnapshot
VALID = Valid()


class RaftLog:
    """The positions of one log.  The node changes them in the order in which it persists the changes."""

    __slots__ = ("_epochs", "_starts", "end_offset", "snapshot", "start_offset")

    def __init__(
        self,
        *,
        start_offset: int = FIRST_OFFSET,
        end_offset: int = FIRST_OFFSET,
        epochs: Iterable[tuple[int, int]] = (),
        snapshot: SnapshotId | None = None,
    ) -> None:
        """`epochs` are pairs of an epoch and its first offset, in ascending order."""
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.snapshot = snapshot
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in epochs:
            self._epochs.append(epoch)
            self._starts.append(start)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; 0 if there never was one."""
        if self._epochs:
            return self._epochs[-1]
        return self.snapshot.epoch if self.snapshot is not None else NO_EPOCH

    @property
    def end(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    def append(self, epoch: int, end_offset: int) -> None:
        """The log has grown to this end by records of this epoch."""
        if not self._epochs or epoch > self._epochs[-1]:
            self._epochs.append(epoch)
            self._starts.append(self.end_offset)
        self.end_offset = end_offset

    def truncate(self, end_offset: int) -> None:
        self.end_offset = end_offset
        while self._starts and self._starts[-1] >= end_offset:
            self._starts.pop()
            self._epochs.pop()

    def reset(self, snapshot: SnapshotId) -> None:
        """The log is empty and continues after this snapshot."""
        self.snapshot = snapshot
        self.start_offset = self.end_offset = snapshot.offset
        self._epochs.clear()
        self._starts.clear()

    def advance_start(self, start_offset: int) -> None:
        """Records below this offset were deleted because a snapshot contains them."""
        self.start_offset = max(self.start_offset, start_offset)
        while len(self._starts) > 1 and self._starts[1] <= start_offset:
            del self._starts[0], self._epochs[0]
        if self._starts:
            self._starts[0] = max(self._starts[0], start_offset)

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The end of the largest epoch in the log that is not larger than this one."""
        index = bisect_right(self._epochs, epoch)
        if index == len(self._epochs):
            return self.end
        end_offset = self._starts[index]
        return OffsetAndEpoch(end_offset, self._epochs[index - 1] if index else epoch)

    def validate(self, offset: int, last_epoch: int) -> Validation:
        """Compare a follower's position (its end offset and the epoch before it) with this log."""
        snapshot = self.snapshot
        if snapshot == FIRST_SNAPSHOT:
            snapshot = None
        if snapshot is not None and self._is_before_log(snapshot, offset, last_epoch):
            return NeedsSnapshot(snapshot)
        if offset == FIRST_OFFSET and last_epoch == NO_EPOCH:
            return VALID
        end = self.end_of_epoch(last_epoch)
        if end.epoch != last_epoch or end.offset < offset:
            return Diverging(end)
        return VALID

    def _is_before_log(self, snapshot: SnapshotId, offset: int, last_epoch: int) -> bool:
        """Whether this log no longer has the records that this position must be compared with."""
        if offset == FIRST_OFFSET or offset < self.start_offset:
            return True
        if offset == self.start_offset:
            # The record before it was deleted; only a snapshot that ends here knows its epoch.
            return (offset, last_epoch) != snapshot
        return snapshot.offset == self.start_offset and last_epoch < snapshot.epoch

    def truncation_offset(self, diverging: OffsetAndEpoch) -> int:
        """Where a follower truncates its log after its leader reported this end of a shared epoch."""
        own = self.end_of_epoch(diverging.epoch)
        if diverging.epoch == NO_EPOCH or own.epoch == diverging.epoch:
            return min(own.offset if own.epoch == diverging.epoch else self.end_offset, diverging.offset)
        return own.offset
