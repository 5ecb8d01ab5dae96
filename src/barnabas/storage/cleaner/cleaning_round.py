"""One cleaning of one log: index the keys of the dirty part, then rewrite segments without outdated records.

cleaner.py decides which log is cleaned and when, batch/engine/compaction.py which records are kept.

A round is a generator: each step reads at most one piece of a segment and yields the bytes it read and wrote,
so that it never blocks a broker's loop for long (compaction and requests share one thread).  Where a new
segment or a rename must be synced, `sync` must be run, possibly on a worker, before the next step.  Closing a
round at any point leaves the log unchanged, except for groups of segments that were already replaced; a swap
in progress is completed at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from barnabas.batch.engine.compaction import filter_chunk, index_chunk
from barnabas.batch.engine.compaction_write import Walk
from barnabas.batch.engine.offset_map import BYTES_PER_ENTRY, OffsetMap
from barnabas.batch.view import LOG_OVERHEAD
from barnabas.storage.cleaner.cleaning_plan import LogToClean, group_segments, segments_between
from barnabas.storage.cleaner.transactions import CleanedTransactions, CleanerCallbacks
from barnabas.storage.failure import refusing
from barnabas.storage.log import log_files
from barnabas.storage.log.deferred_work import OpenFiles, PendingSync
from barnabas.storage.log.log import Log
from barnabas.storage.segment.segment import Segment
from barnabas.storage.segment.transaction_index import AbortedTransaction

# The map has at least this many slots per entry where memory allows: long probes are slow.
ROOMINESS = 2


@dataclass(slots=True)
class RoundStats:
    """What a round did; `end_offset` is where the next one starts."""

    end_offset: int = -1
    map_bytes_read: int = 0
    map_records_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    keyless_records: int = 0
    segments_before: int = 0
    segments_after: int = 0
    map_utilization: float = 0.0


@dataclass(frozen=True, slots=True)
class RoundLimits:
    """The memory limit of a round, and how much it reads at once."""

    dedupe_bytes: int
    load_factor: float
    piece_bytes: int

    @property
    def slots(self) -> int:
        return self.dedupe_bytes // BYTES_PER_ENTRY

    @property
    def max_entries(self) -> int:
        return int(self.slots * self.load_factor)


@dataclass(slots=True)
class CleaningRound:
    """Cleans one log; run `steps` to its end, then read `stats`."""

    target: LogToClean
    limits: RoundLimits
    now_ms: int
    # The call that checkpoints the offset up to which the log may have gaps.
    plan_gaps: Callable[[], Callable[[], None]] = lambda: lambda: None
    stats: RoundStats = field(default_factory=RoundStats)
    # The sync to run, here or on a worker, before the next step.
    sync: PendingSync | None = None
    # Whether a swap is in progress, which must be completed.
    is_swapping: bool = False
    # Whether to end as soon as no swap is in progress.
    is_cancelled: bool = False
    # Whether the folder is about to be deleted: its state no longer matters.
    is_abandoned: bool = False

    def steps(self) -> Iterator[int]:
        target = self.target
        log = target.log
        offsets = OffsetMap(self._slots())
        while offsets.reserve():
            yield 0
        yield from self._index(offsets)
        self.stats.end_offset = offsets.latest_offset + 1
        self.stats.map_utilization = offsets.size / self.limits.slots
        groups = group_segments(
            segments_between(log, 0, self.stats.end_offset),
            log.options.segment_bytes,
            log.options.segment_index_bytes,
            target.first_uncleanable_offset,
        )
        yield from self._expect_gaps()
        transactions = CleanedTransactions()
        for group in groups:
            yield from self._clean_group(group, offsets, transactions)
            if self.is_cancelled:
                return

    def _expect_gaps(self) -> Iterator[int]:
        """Before the first record is removed: flush the log, and record that it may have gaps.

        Offsets missing below `gaps_end` no longer count as lost, so everything there must be durable.  And a
        record must not be removed because of a later record, or a transaction marker, that a power loss can
        still take: it may be in the active segment.
        """
        log, end = self.target.log, self.target.first_uncleanable_offset
        plan = log.plan_flush()
        if plan is not None:
            try:
                yield from self.wait_for(plan.run)
                log.flushed(plan)
            finally:
                plan.close()
        before = log.gaps_end
        if before < end:
            log.gaps_end = end
            try:
                yield from self.wait_for(self.plan_gaps())
            except BaseException:
                log.gaps_end = before  # it may not be checkpointed: the next round must do it
                raise

    def _slots(self) -> int:
        """At most one slot per offset of the dirty part: a small log needs little memory."""
        dirty = max(1, self.target.first_uncleanable_offset - self.target.first_dirty_offset)
        return min(self.limits.slots, ROOMINESS * min(dirty, self.limits.max_entries) + 1)

    def _index(self, offsets: OffsetMap) -> Iterator[int]:
        """Add the dirty segments to the map until it is full, which ends this round's range."""
        target = self.target
        log, first, stop = target.log, target.first_dirty_offset, target.first_uncleanable_offset
        transactions = CleanedTransactions()
        transactions.expect_aborted(log.aborted_transactions(first, stop))
        callbacks = CleanerCallbacks(transactions, {})
        dirty = segments_between(log, first, stop)
        for index, segment in enumerate(dirty):
            header = segment.locate(first)
            position = segment.size if header is None else header.position
            while position < segment.size:
                piece = _piece(log, segment, position, self.limits.piece_bytes)
                walk = Walk()
                position += index_chunk(offsets, piece, first, self.limits.max_entries, callbacks, walk)
                self.stats.map_bytes_read += walk.bytes_read
                self.stats.map_records_read += walk.records_read
                yield len(piece)
                if walk.full:
                    return
            # A gap at the end of a segment has no records: it is clean.
            offsets.latest_offset = (dirty[index + 1].base_offset if index + 1 < len(dirty) else stop) - 1

    def _clean_group(
        self, group: Sequence[Segment], offsets: OffsetMap, transactions: CleanedTransactions
    ) -> Iterator[int]:
        """Rewrite adjacent segments into one that replaces them."""
        log = self.target.log
        with refusing(log.folder, "compacting"):  # the new segment is removed, the old ones stay
            cleaned = yield from self._rewrite(group, offsets, transactions)
        yield from self._swap(cleaned, group)
        self.stats.segments_before += len(group)
        self.stats.segments_after += 1

    def _rewrite(
        self, group: Sequence[Segment], offsets: OffsetMap, transactions: CleanedTransactions
    ) -> Generator[int, None, Segment]:
        log = self.target.log
        cleaned = Segment.create(
            log.disk, log.clock, log.folder, group[0].base_offset, log.options, suffix=log_files.CLEANED
        )
        try:
            transactions.keep_aborted = _keeper(cleaned)
            callbacks = CleanerCallbacks(transactions, log.last_records_of_producers())
            for index, segment in enumerate(group):
                upper = group[index + 1].base_offset if index + 1 < len(group) else segment.next_offset()
                transactions.expect_aborted(log.aborted_transactions(segment.base_offset, upper))
                yield from self._clean_into(cleaned, segment, offsets, callbacks)
            cleaned.become_inactive()
            yield from self._sync_segment(cleaned)
            # Retention and the next cleaning use the age of the records, not of the rewrite.
            cleaned.files.set_modified_ms(group[-1].files.modified_ms)
        except BaseException:
            with contextlib.suppress(OSError):
                cleaned.delete()
            raise
        return cleaned

    def _sync_segment(self, cleaned: Segment) -> Iterator[int]:
        cleaned.write_out()
        files = OpenFiles(self.target.log.disk, [cleaned.path(kind) for kind in log_files.SEGMENT_FILES])
        try:
            yield from self.wait_for(files.sync)
        finally:
            files.close()

    def _swap(self, cleaned: Segment, group: Sequence[Segment]) -> Iterator[int]:
        log = self.target.log
        swap = log.local.swap_segments([cleaned], group)
        sync_folder = partial(log.disk.sync_folder, log.folder)
        self.is_swapping = True
        try:
            for _ in swap:
                yield from self.wait_for(sync_folder)
        except GeneratorExit:
            # Closing the round completes the swap, unless the directory has failed or the folder is about to
            # be deleted.  This waits for the device: on a loop, cancel instead.
            if not log.is_closed and not self.is_abandoned:
                sync_folder()
                for _ in swap:
                    sync_folder()
            raise
        finally:
            self.is_swapping = False

    def wait_for(self, call: Callable[[], None]) -> Iterator[int]:
        """Have the caller run it through `sync` before the round continues."""
        self.sync = sync = PendingSync(call)
        yield 0
        self.sync = None
        sync.finish()

    def _clean_into(
        self, cleaned: Segment, segment: Segment, offsets: OffsetMap, callbacks: CleanerCallbacks
    ) -> Iterator[int]:
        delete_retention_ms = self.target.log.options.delete_retention_ms
        stop = self.target.first_uncleanable_offset
        position = 0
        while position < segment.size:
            piece = _piece(self.target.log, segment, position, self.limits.piece_bytes)
            walk = Walk()
            position += filter_chunk(offsets, piece, self.now_ms, delete_retention_ms, stop, callbacks, walk)
            output = walk.output()
            if output:
                cleaned.append(output, walk.last_offset)
            self._count(walk, len(output))
            yield len(piece) + len(output)

    def _count(self, walk: Walk, written: int) -> None:
        stats = self.stats
        stats.bytes_read += walk.bytes_read
        stats.bytes_written += written
        stats.records_read += walk.records_read
        stats.records_kept += walk.records_kept
        stats.keyless_records += walk.keyless


def _keeper(cleaned: Segment) -> Callable[[AbortedTransaction], None]:
    return lambda transaction: cleaned.add_aborted(*transaction)


def _piece(log: Log, segment: Segment, position: int, limit: int) -> bytes:
    """Up to `limit` bytes from a position on, but at least one complete batch.

    The engine checks CRCs, which do not cover offsets: a too high offset would outdate later records.
    """
    data = segment.read_at(position, limit)
    size = LOG_OVERHEAD + int.from_bytes(data[8:LOG_OVERHEAD], "big", signed=True)
    if len(data) < LOG_OVERHEAD or size < LOG_OVERHEAD or position + size > segment.size:
        raise ValueError(f"the batch at position {position} of {segment} does not fit the segment")
    if size > len(data):
        data = segment.read_at(position, size)
    following = log.segments.after(segment)
    highest = log.end_offset if following is None else following.base_offset
    valid_end = segment.check(position, position + len(data), highest)
    return data[: valid_end - position]
