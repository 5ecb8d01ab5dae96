"""One segment of a log: the batches, the two sparse indexes, the index of aborted transactions.

What lives here: appending to, searching, reading and closing one segment's files.  What may not: which
segments a log has, and what the offsets mean to producers and followers.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.runtime.clock import Clock
from barnabas.runtime.disk import Buffer, Disk, Slice
from barnabas.storage.options import LogOptions


class Segment:
    """Files are opened when needed.  `size` is the length of the batches, whatever the file system says."""

    base_offset: int
    size: int
    suffix: str

    @classmethod
    def create(
        cls,
        disk: Disk,
        clock: Clock,
        folder: str,
        base_offset: int,
        options: LogOptions,
        *,
        suffix: str = "",
        jitter_ms: int = 0,
    ) -> Segment:
        """A new, empty segment; the cleaner makes its own with suffix `.cleaned`."""
        raise NotImplementedError

    def append(self, buffer: Buffer, last_offset: int) -> None:
        """Whole batches with ascending offsets, in one write; index entries as due."""
        raise NotImplementedError

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes of the batches from `position` on."""
        raise NotImplementedError

    def slice(self, position: int, length: int) -> Slice:
        raise NotImplementedError

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """(position, whole batches) in bounded pieces: the way to walk a segment."""
        raise NotImplementedError

    @property
    def largest_timestamp(self) -> int:
        """Of the records; the file's modification time if they have none: what retention compares."""
        raise NotImplementedError

    @property
    def max_timestamp(self) -> int:
        """Of the records, -1 if they have none."""
        raise NotImplementedError

    @property
    def first_batch_timestamp(self) -> int:
        """Max timestamp of the first batch; LONG_MAX if there is none (for max.compaction.lag.ms)."""
        raise NotImplementedError

    @property
    def modified_ms(self) -> int:
        raise NotImplementedError

    def set_modified_ms(self, wall_ms: int) -> None:
        raise NotImplementedError

    def become_inactive(self) -> None:
        """Last time index entry, indexes and a preallocated log trimmed: on roll and at the end of cleaning."""
        raise NotImplementedError

    def sync(self) -> None:
        """Batches and indexes to stable storage."""
        raise NotImplementedError

    def add_aborted(
        self, producer_id: int, first_offset: int, last_offset: int, last_stable_offset: int
    ) -> None:
        """One entry of the transaction index (the cleaner copies those that are still needed)."""
        raise NotImplementedError

    def aborted_transactions(self) -> list[object]:
        """All AbortedTransaction entries of the transaction index."""
        raise NotImplementedError

    def next_offset(self) -> int:
        """One past the last offset that is stored here; base_offset if empty."""
        raise NotImplementedError

    def close(self) -> None: ...

    def delete(self) -> None:
        """Close and remove the files at once (an unfinished cleaned segment)."""
