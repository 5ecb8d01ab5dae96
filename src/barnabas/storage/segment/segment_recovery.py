"""Reading a segment batch by batch after a crash, and making anew all that is derived from its batches.

What lives here: which batches count as sound, and what follows from each.  What may not: which segments are
read again, and what happens to those after a damaged one (recovery.py).

A CRC covers a batch from its attributes on.  Its length betrays itself; its offset and its leader epoch lie
outside, so that a leader can set them without a new CRC: they must fit those of their neighbours.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.batch.view import MAGIC_V2, CorruptBatch
from barnabas.storage.log import log_files
from barnabas.storage.log.leader_epochs import LeaderEpochs
from barnabas.storage.log.log_options import LONG_MAX
from barnabas.storage.producers.producer_replay import replay_batch, view_of
from barnabas.storage.producers.producers import Producers
from barnabas.storage.progress import Watch, unwatched
from barnabas.storage.segment.batch_headers import BatchHeader, crc_ok
from barnabas.storage.segment.segment import Segment

logger = logging.getLogger(__name__)


class Found(NamedTuple):
    """A batch in memory."""

    header: BatchHeader
    data: bytes
    start: int
    # Whether offsets are missing before it.
    after_gap: bool


def recover_segment(
    segment: Segment,
    producers: Producers,
    epochs: LeaderEpochs,
    limit: int,
    gaps_end: int,
    *,
    watch: Watch = unwatched,
) -> tuple[int, bool]:
    """Rebuild all indexes and cut what is not sound; the bytes that went, and whether there are new gaps.

    `limit` is the next segment's base offset, LONG_MAX for the last one: no batch may reach it.  Up to
    `gaps_end` offsets may be missing before a batch (`Log.gaps_end`); a gap beyond it is a new one.
    """
    segment.reset_indexes()
    segment.transaction_index.reset()
    valid, gaps = 0, False
    try:
        for found in sound_batches(segment, limit, gaps_end, watch=watch):
            segment.index_batch(found.header)
            _replay(segment, producers, epochs, found)
            valid = found.header.end
            gaps |= found.after_gap and found.header.base_offset > gaps_end
    except CorruptBatch as error:
        logger.warning("%s: %s", segment.path(log_files.LOG), error)
    dropped = segment.size - valid
    if dropped > 0:
        segment.cut(valid)
        # Else the next power loss brings back what was cut, behind batches that are written after it.
        segment.file().sync()
    segment.close_indexes()
    return dropped, gaps


def sound_batches(
    segment: Segment, limit: int, gaps_end: int, *, watch: Watch = unwatched
) -> Iterator[Found]:
    """Batches up to the first that is not sound; CorruptBatch says why it is not.

    Each waits for its successor: of two that do not follow each other, the one that leapt ahead of its
    predecessor is the damaged one.  The last one of a log has no successor, so it may not leap at all beyond
    `gaps_end`.
    """
    last_offset = segment.base_offset - 1
    waiting: Found | None = None
    fault: CorruptBatch | None = None
    try:
        for position, data, headers in segment.pieces():
            watch(segment.path(log_files.LOG), position, segment.size)
            for header in headers:
                start = header.position - position
                if not crc_ok(header, data, start):
                    raise CorruptBatch(f"the batch at position {header.position} has a wrong CRC")
                if waiting is not None:
                    if waiting.after_gap and last_offset < header.base_offset <= waiting.header.last_offset:
                        leapt, waiting = waiting.header, None
                        raise _misplaced(leapt, last_offset)
                    yield waiting
                    last_offset, waiting = waiting.header.last_offset, None
                if not last_offset < header.base_offset <= header.last_offset < limit:
                    raise _misplaced(header, last_offset)
                if not segment.can_hold(header.last_offset):
                    raise _misplaced(header, last_offset)
                after_gap = header.magic == MAGIC_V2 and header.base_offset > last_offset + 1
                waiting = Found(header, data, start, after_gap)
    except CorruptBatch as error:
        fault = error
    if waiting is not None:
        is_end = fault is not None or limit == LONG_MAX
        if waiting.after_gap and is_end and waiting.header.base_offset > gaps_end:
            raise _misplaced(waiting.header, last_offset)
        yield waiting
    if fault is not None:
        raise fault


def _misplaced(header: BatchHeader, last_offset: int) -> CorruptBatch:
    return CorruptBatch(
        f"the batch at position {header.position} has the offsets {header.base_offset} to"
        f" {header.last_offset},"
        f" which do not follow {last_offset}"
    )


def _replay(segment: Segment, producers: Producers, epochs: LeaderEpochs, found: Found) -> None:
    header = found.header
    latest_epoch = epochs.latest_epoch
    if header.leader_epoch > (-1 if latest_epoch is None else latest_epoch):
        epochs.assign(header.leader_epoch, header.base_offset)
    ended = replay_batch(producers, header, view_of(found.data, found.start))
    if ended is not None and ended[0].aborted:
        completed, last_stable_offset = ended
        segment.add_aborted(
            completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
        )
