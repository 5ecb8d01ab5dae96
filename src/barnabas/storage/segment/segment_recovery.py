"""Recovers a segment after a crash: reads it batch by batch and rebuilds everything derived from its batches.

batch_chain.py decides which batches are valid; storage/log/recovery.py which segments are recovered, and what
happens to those after a damaged one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from barnabas.batch.view import BatchHeader, CorruptBatch
from barnabas.storage.log import log_files
from barnabas.storage.log.leader_epochs import LeaderEpochs
from barnabas.storage.log.log_options import LONG_MAX
from barnabas.storage.producers.producer_replay import replay_batch, view_of
from barnabas.storage.producers.producers import Producers
from barnabas.storage.progress import Watch, unwatched
from barnabas.storage.segment.batch_chain import Found, valid_batches
from barnabas.storage.segment.index import RELATIVE_OFFSET_LIMIT
from barnabas.storage.segment.segment import Segment

logger = logging.getLogger(__name__)


def recover_segment(
    segment: Segment,
    producers: Producers,
    epochs: LeaderEpochs,
    limit: int,
    gaps_end: int,
    *,
    watch: Watch = unwatched,
) -> tuple[int, bool]:
    """Rebuild all indexes and truncate invalid bytes; returns their number and whether there are new gaps.

    `limit` is the next segment's base offset, LONG_MAX for the last one: all offsets must be below it.  Up to
    `gaps_end` offsets may be missing before a batch (`Log.gaps_end`); a gap beyond it is new.
    """
    segment.reset_indexes()
    segment.transaction_index.reset()
    valid, gaps = 0, False
    try:
        for found in valid_batches(
            _watched(segment, watch),
            segment.base_offset - 1,
            min(limit, segment.base_offset + RELATIVE_OFFSET_LIMIT + 1),
            is_log_end=limit == LONG_MAX,
            gaps_end=gaps_end,
        ):
            segment.index_batch(found.header)
            _replay(segment, producers, epochs, found)
            valid = found.header.end
            gaps |= found.after_gap and found.header.base_offset > gaps_end
    except CorruptBatch as error:
        logger.warning("%s: %s", segment.path(log_files.LOG), error)
    dropped = segment.size - valid
    if dropped > 0:
        segment.cut(valid)
        # Otherwise a power loss could bring truncated bytes back after batches that are written next.
        segment.file().sync()
    segment.close_indexes()
    return dropped, gaps


def _watched(segment: Segment, watch: Watch) -> Iterator[tuple[int, bytes, list[BatchHeader]]]:
    for piece in segment.pieces():
        watch(segment.path(log_files.LOG), piece[0], segment.size)
        yield piece


def _replay(segment: Segment, producers: Producers, epochs: LeaderEpochs, found: Found) -> None:
    header = found.header
    epochs.restore(header.leader_epoch, header.base_offset)
    ended = replay_batch(producers, header, view_of(found.data, found.start))
    if ended is not None and ended[0].aborted:
        completed, last_stable_offset = ended
        segment.add_aborted(
            completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
        )
