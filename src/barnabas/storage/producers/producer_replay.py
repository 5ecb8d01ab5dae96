"""Updates the producer state from batches of the log: on append, in recovery, after truncation.

Contains how a stored batch changes the producer state, and the rebuild from the newest snapshot and the
batches after it.  The checks belong in producer_append.py.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.control import batch_marker
from barnabas.batch.view import MAGIC_V2, BatchHeader, BatchView, CorruptBatch
from barnabas.runtime.disk.disk import Buffer
from barnabas.storage.log import log_files
from barnabas.storage.log.log_options import LONG_MAX
from barnabas.storage.producers.producer_append import (
    AppendOrigin,
    BatchMetadata,
    CompletedTransaction,
    ProducerAppend,
    Verification,
)
from barnabas.storage.producers.producers import Producers
from barnabas.storage.progress import Watch, unwatched
from barnabas.storage.segment.segment import Segment
from barnabas.storage.segment.segments import Segments

logger = logging.getLogger(__name__)

# The interval at which a rebuild reports its progress.
BATCHES_BETWEEN_REPORTS = 1024
_VERIFIED_ORIGINS = frozenset((AppendOrigin.CLIENT, AppendOrigin.COORDINATOR))


def add_batch(
    append: ProducerAppend, header: BatchHeader, batch: Callable[[], BatchView]
) -> CompletedTransaction | None:
    """Validate one batch against its producer and record its changes; only a marker is read whole."""
    if not header.is_control:
        append.add_data(
            header.producer_epoch,
            header.base_sequence,
            header.last_sequence,
            header.max_timestamp,
            header.base_offset,
            header.last_offset,
            header.is_transactional,
        )
        return None
    marker = batch_marker(batch())
    if marker is None:
        return None  # compaction removed its records
    return append.add_marker(marker, header.producer_epoch, header.base_offset, header.max_timestamp)


@dataclass(slots=True)
class ProducerChanges:
    """The changes to the producer state once the append is written; or the batch that it duplicates."""

    appends: dict[int, ProducerAppend] = field(default_factory=dict)
    completed: list[CompletedTransaction] = field(default_factory=list)
    duplicate: BatchMetadata | None = None


NO_CHANGES = ProducerChanges()


def check_append(
    producers: Producers,
    headers: Sequence[BatchHeader],
    data: Buffer,
    origin: AppendOrigin,
    verification: Verification | None,
    *,
    must_verify: bool,
) -> ProducerChanges:
    """Validate every batch of an append against its producer; changes nothing but a used verification."""
    changes = NO_CHANGES
    for header in headers:
        producer_id = header.producer_id
        if producer_id < 0:
            continue
        if changes is NO_CHANGES:
            changes = ProducerChanges()
        if origin is AppendOrigin.CLIENT:
            entry = producers.entries.get(producer_id)
            if entry is not None:
                changes.duplicate = entry.duplicate_of(
                    header.producer_epoch, header.base_sequence, header.last_sequence
                )
                if changes.duplicate is not None:
                    return changes
        if must_verify and header.is_transactional and origin in _VERIFIED_ORIGINS:
            _check_verified(producers, header, verification)
        append = changes.appends.get(producer_id)
        if append is None:
            append = changes.appends[producer_id] = producers.prepare(producer_id, origin)
        completed = add_batch(append, header, view_of(data, header.position))
        if completed is not None:
            changes.completed.append(completed)
        if header.is_control:
            producers.marker_appended(producer_id, header.producer_epoch)
        elif header.is_transactional:
            producers.end_verification(producer_id)
    return changes


def _check_verified(producers: Producers, header: BatchHeader, verification: Verification | None) -> None:
    """The coordinator must have verified a transaction before its first batch here (KIP-890)."""
    if header.is_control or producers.has_ongoing_transaction(header.producer_id, header.producer_epoch):
        return
    known = producers.verification(header.producer_id)
    if known is None or known is not verification:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")


def replay_batch(
    producers: Producers, header: BatchHeader, batch: Callable[[], BatchView]
) -> tuple[CompletedTransaction, int] | None:
    """Apply a stored batch; returns a transaction that it completes, with the last stable offset after it."""
    ended = None
    if header.has_producer_id:
        append = producers.prepare(header.producer_id, AppendOrigin.REPLICATION)
        try:
            completed = add_batch(append, header, batch)
        except CorruptBatch:
            raise
        except KafkaError as error:
            # The batch was accepted when it was written, so the producer's state is out of date: its records
            # were deleted since, or the end of its transaction was lost.
            logger.warning("%s; dropping the earlier state of the producer", error)
            producers.forget(header.producer_id)
            append = producers.prepare(header.producer_id, AppendOrigin.REPLICATION)
            completed = add_batch(append, header, batch)
        producers.apply(append)
        if completed is not None:
            ended = completed, producers.stable_offset_after(completed)
            producers.complete(completed)
    producers.end_offset = header.last_offset + 1
    return ended


def rebuild_producers(
    producers: Producers,
    segments: Segments,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
    *,
    after_clean_stop: bool,
    watch: Watch = unwatched,
) -> None:
    """Rebuild the state before end_offset; leaves snapshots where the next rebuild can use them."""

    def take_snapshot() -> None:
        producers.take_snapshot(sync=True)

    if after_clean_stop and not producers.snapshots and not _may_have_producers(segments):
        # The log is empty or of a format without producer ids: a scan would find nothing.
        for offset in (*segments.base_offsets[-2:], end_offset):
            producers.end_offset = offset
            take_snapshot()
        return
    for _ in rebuild_in_steps(
        producers, segments, log_start_offset, end_offset, now_ms, take_snapshot, watch=watch
    ):
        pass


def rebuild_in_steps(
    producers: Producers,
    segments: Segments,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
    take_snapshot: Callable[[], None],
    *,
    watch: Watch = unwatched,
) -> Iterator[None]:
    """Rebuild the state from the newest snapshot, in short steps."""
    wanted = [*segments.base_offsets[-2:], end_offset]
    was_empty = producers.is_empty and producers.end_offset >= end_offset
    producers.reload(log_start_offset, end_offset, now_ms)
    if end_offset > producers.end_offset and not was_empty:
        last = segments.floor(end_offset)
        for segment in segments.between(producers.end_offset, end_offset):
            start_offset = max(segment.base_offset, producers.end_offset, log_start_offset)
            producers.end_offset = start_offset
            if segment.base_offset in wanted:
                take_snapshot()
            following = segments.after(segment)
            limit = LONG_MAX if following is None else following.base_offset
            stop = end_offset if segment is last else LONG_MAX
            yield from _replay_segment(producers, segment, start_offset, stop, limit, watch)
    producers.end_offset = end_offset
    take_snapshot()


def _may_have_producers(segments: Segments) -> bool:
    """Whether the last batches are of a format with producer ids."""
    for segment in reversed(segments):
        with contextlib.suppress(CorruptBatch):
            first = next(segment.headers(), None)
            if first is not None:
                return first.magic >= MAGIC_V2
    return False


def _replay_segment(
    producers: Producers, segment: Segment, start_offset: int, end_offset: int, limit: int, watch: Watch
) -> Iterator[None]:
    try:
        first = segment.locate(start_offset)
        if first is None:
            return
        valid_end = segment.check(first.position, segment.size, limit)
        for number, header in enumerate(segment.headers(first.position, valid_end)):
            if not number % BATCHES_BETWEEN_REPORTS:
                watch(segment.path(log_files.LOG), header.position, segment.size)
                yield
            if header.last_offset >= end_offset:
                return
            replay_batch(producers, header, reader(segment.read_at, header))
        segment.check(valid_end, segment.size, limit)
    except CorruptBatch as error:
        logger.warning("%s; skipping it and the batches after it in its segment", error.message)


def reader(read_at: Callable[[int, int], Buffer], header: BatchHeader) -> Callable[[], BatchView]:
    """Returns a call that reads the complete batch of a header."""
    return lambda: BatchView(read_at(header.position, header.size))


def view_of(data: Buffer, start: int) -> Callable[[], BatchView]:
    """Returns a call that views a batch in memory."""
    return lambda: BatchView(data, start)
