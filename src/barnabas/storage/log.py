"""A partition's log.  (Signatures first; see the agreed seams.)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from barnabas.runtime.chance import Random
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk import Buffer, Disk, Slice
from barnabas.storage.options import LogOptions
from barnabas.storage.segment import Segment


class AppendOrigin(Enum):
    CLIENT = "client"
    COORDINATOR = "coordinator"
    RAFT_LEADER = "raft leader"
    REPLICATION = "replication"


@dataclass(frozen=True, slots=True)
class AppendResult:
    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    bytes_appended: int
    duplicate: bool


@dataclass(frozen=True, slots=True)
class ReadResult:
    fetch_offset: int
    segment_base_offset: int
    position: int
    slice: Slice | None
    first_batch_incomplete: bool
    aborted: tuple[object, ...] | None


class DeleteJob:
    """Files renamed `.deleted`, to be removed when `due_ms` (monotonic) has come: `run()`."""

    due_ms: int

    def run(self) -> None: ...


class FlushPlan:
    """What a flush has to sync: made on the log's thread, run() on any, then handed to Log.flushed()."""

    def run(self) -> None: ...


class Log:
    disk: Disk
    clock: Clock
    folder: str  # whole path
    topic: str
    partition: int
    options: LogOptions
    segments: Sequence[Segment]
    active: Segment
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    end_offset: int
    recovery_point: int
    size: int

    @classmethod
    def open(
        cls,
        disk: Disk,
        clock: Clock,
        folder: str,
        options: LogOptions,
        *,
        random: Random,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
    ) -> Log:
        """Open or create the log in `folder`; after an unclean stop it is recovered from recovery_point on."""
        raise NotImplementedError

    def append_as_leader(
        self, buffer: Buffer, leader_epoch: int, *, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> AppendResult:
        raise NotImplementedError

    def append_as_follower(self, buffer: Buffer, leader_epoch: int) -> AppendResult:
        raise NotImplementedError

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        upper_bound: int,
        min_one_batch: bool,
        read_committed: bool = False,
    ) -> ReadResult:
        raise NotImplementedError

    def roll(self) -> Segment:
        raise NotImplementedError

    def remove_segments(self, segments: Sequence[Segment], reason: str) -> int:
        """Oldest first, for retention: rolls first when all would go, raises log_start_offset, renames `.deleted`
        with the producer snapshots; the count removed.  The files go when their DeleteJob is run."""
        raise NotImplementedError

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """The cleaner's swap: new (suffix .cleaned, become_inactive() and sync() done) for old; crash safe."""
        raise NotImplementedError

    def take_delete_jobs(self) -> list[DeleteJob]:
        """Deletes that came up since the last call (retention, truncation, cleaning, recovery)."""
        raise NotImplementedError

    def plan_flush(self, up_to: int | None = None) -> FlushPlan | None:
        raise NotImplementedError

    def flushed(self, plan: FlushPlan) -> None:
        raise NotImplementedError

    def flush(self, up_to: int | None = None) -> None:
        raise NotImplementedError

    def should_flush(self) -> bool:
        """flush.messages reached (the caller flushes); flush.ms is the manager's: see unflushed_since_ms."""
        raise NotImplementedError

    def advance_high_watermark(self, offset: int) -> None:
        raise NotImplementedError

    def advance_log_start(self, offset: int) -> bool:
        raise NotImplementedError

    def truncate_to(self, offset: int) -> bool:
        raise NotImplementedError

    def truncate_fully_to(self, offset: int, *, log_start_offset: int | None = None) -> None:
        raise NotImplementedError

    def aborted_transactions(self, start: int, upper_bound: int) -> list[object]:
        """AbortedTransaction entries that touch [start, upper_bound): what the cleaner needs."""
        raise NotImplementedError

    def remove_expired_producers(self) -> None:
        """Called each producer.id.expiration.check.interval.ms."""

    def last_records_of_producers(self) -> dict[int, tuple[int | None, int]]:
        """producer id -> (last data offset or None, producer epoch): the cleaner keeps those batches."""
        raise NotImplementedError

    def rename_folder(self, name: str) -> None:
        """To topic-partition.<hex>-delete and its like, or back (a future log that takes over)."""
        raise NotImplementedError

    def close(self) -> None:
        """Clean: snapshot of the producers at the end offset, indexes trimmed."""

    def delete(self) -> None:
        """Close without ceremony and remove the folder with all it holds."""
