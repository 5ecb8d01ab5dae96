"""The rule for valid batches, in recovery and on first read: a right CRC, and offsets in sequence.

segment_recovery.py and file_records.py decide what happens to invalid batches.

The CRC covers a batch from its attributes on.  A wrong length shows by itself.  The base offset and leader
epoch lie outside, so that a leader can set them without a new CRC: they must fit those of adjacent batches.
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
    # Whether offsets are missing before it.
    after_gap: bool


def valid_batches(
    pieces: Iterable[tuple[int, bytes, list[BatchHeader]]],
    last_offset: int | None,
    limit: int,
    *,
    is_log_end: bool = False,
    gaps_end: int = LONG_MAX,
) -> Iterator[Found]:
    """Yields batches up to the first invalid one, for which it raises CorruptBatch with the reason.

    `last_offset` is that of the preceding batch, None if unknown; all offsets must be below the limit.  A
    batch is yielded once its successor is known: of two that are out of sequence, the one that jumped ahead
    of its predecessor is damaged, or both if that is undecided.  The last batch of a log (`is_log_end`), or
    before damage, has no successor, so it must not follow a gap beyond `gaps_end` (`Log.gaps_end`).
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
                # Older formats store only the last offset of a batch, so gaps cannot be detected.
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
        return True  # undecided, and the successor is invalid anyway
    # A successor that does not follow the predecessor either is itself damaged.
    return waiting.base_offset > last_offset + 1 and following.base_offset > last_offset


def _misplaced(header: BatchHeader) -> CorruptBatch:
    return CorruptBatch(
        f"the batch at position {header.position} has the offsets {header.base_offset} to"
        f" {header.last_offset}, which do not fit those of adjacent batches"
    )
