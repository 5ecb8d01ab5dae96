"""Which batches of a file follow each other, so that their offsets can be believed.

What lives here: the one rule by which a batch counts as sound, in recovery and when it is first read.  What
may not: what becomes of those that are not (segment_recovery.py, file_records.py).

A CRC covers a batch from its attributes on.  Its length betrays itself; its offset and its leader epoch lie
outside, so that a leader can set them without a new CRC: they must fit those of their neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from barnabas.batch.view import MAGIC_V2, BatchHeader, CorruptBatch
from barnabas.storage.log.log_options import LONG_MAX
from barnabas.storage.segment.batch_headers import crc_ok


class Found(NamedTuple):
    """A batch in memory."""

    header: BatchHeader
    data: bytes
    start: int
    # Whether offsets are known to be missing before it.
    after_gap: bool


def sound_batches(
    pieces: Iterable[tuple[int, bytes, list[BatchHeader]]],
    last_offset: int | None,
    limit: int,
    *,
    is_log_end: bool = False,
    gaps_end: int = LONG_MAX,
) -> Iterator[Found]:
    """Batches up to the first that is not sound; CorruptBatch says why it is not.

    `last_offset` is that of the batch before them, None if it is not known; none may reach the limit.  Each
    waits for its successor: of two that do not follow each other, the one that leapt ahead of its predecessor
    is the damaged one; where that cannot be told, both are.  The last one of a log (`is_log_end`), or before
    damage, has no successor, so it may not leap at all beyond `gaps_end` (`Log.gaps_end`).
    """
    waiting: Found | None = None
    fault: CorruptBatch | None = None
    try:
        for position, data, headers in pieces:
            for header in headers:
                start = header.position - position
                if not crc_ok(header, data, start):
                    raise CorruptBatch(f"the batch at position {header.position} has a wrong CRC")
                if waiting is not None:
                    if _has_leapt(waiting.header, last_offset, header):
                        leapt, waiting = waiting.header, None
                        raise _misplaced(leapt)
                    yield waiting
                    last_offset, waiting = waiting.header.last_offset, None
                if header.last_offset >= limit or (
                    last_offset is not None and header.base_offset <= last_offset
                ):
                    raise _misplaced(header)
                after_gap = last_offset is not None and header.base_offset > last_offset + 1
                # Older formats give the last offset of a batch alone, so they have no gaps to speak of.
                waiting = Found(header, data, start, after_gap and header.magic == MAGIC_V2)
    except CorruptBatch as error:
        fault = error
    if waiting is not None:
        is_end = fault is not None or is_log_end
        if waiting.after_gap and is_end and waiting.header.base_offset > gaps_end:
            raise _misplaced(waiting.header)
        yield waiting
    if fault is not None:
        raise fault


def _has_leapt(waiting: BatchHeader, last_offset: int | None, following: BatchHeader) -> bool:
    """Whether a batch is ahead of its successor because it is ahead of its predecessor."""
    if following.base_offset > waiting.last_offset:
        return False
    if last_offset is None:
        return True  # it may be so, and the successor is refused anyway
    # A successor that does not even follow the predecessor is damaged itself.
    return waiting.base_offset > last_offset + 1 and following.base_offset > last_offset


def _misplaced(header: BatchHeader) -> CorruptBatch:
    return CorruptBatch(
        f"the batch at position {header.position} has the offsets {header.base_offset} to"
        f" {header.last_offset}, which do not fit those around it"
    )
