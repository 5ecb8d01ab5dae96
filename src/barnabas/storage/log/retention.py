"""Retention: which segments of a log have had their day (M-E3).

What lives here: the three reasons for which old segments go: they lie before the log start, the log is too
large, or their records are too old.  What may not: how a segment is removed (log.py), and when this is asked
(the manager for logs with cleanup.policy=delete, the cleaner for compacted ones).
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.storage.log.log import Log
from barnabas.storage.segment.segment import Segment

Predicate = Callable[[Segment, Segment | None], bool]


def expire(log: Log, now_ms: int) -> int:
    """Remove what retention lets go; the number of segments.  now_ms is wall time."""
    removed = log.remove_segments(
        before_log_start(log), f"they lie before the log start {log.log_start_offset}"
    )
    if log.options.cleanup_delete:
        retention_bytes = log.options.retention_bytes
        removed += log.remove_segments(
            over_size(log), f"the log is larger than retention.bytes={retention_bytes}"
        )
        retention_ms = log.options.retention_ms
        removed += log.remove_segments(
            too_old(log, now_ms), f"they are older than retention.ms={retention_ms}"
        )
    return removed


def before_log_start(log: Log) -> list[Segment]:
    """Segments whose last record lies before the log start (DeleteRecords moved it)."""
    start = log.log_start_offset
    return _oldest(log, lambda _, following: following is not None and following.base_offset <= start)


def over_size(log: Log) -> list[Segment]:
    """The oldest segments without which the log is still at least retention.bytes long; -1 keeps all."""
    limit = log.options.retention_bytes
    if limit < 0 or log.size < limit:
        return []
    surplus = log.size - limit

    def is_surplus(segment: Segment, _: Segment | None) -> bool:
        nonlocal surplus
        if surplus < segment.size:
            return False
        surplus -= segment.size
        return True

    return _oldest(log, is_surplus)


def too_old(log: Log, now_ms: int) -> list[Segment]:
    """The oldest segments whose newest record is older than retention.ms; -1 keeps all."""
    limit = log.options.retention_ms
    if limit < 0:
        return []
    return _oldest(log, lambda segment, _: now_ms - segment.largest_timestamp > limit)


def _oldest(log: Log, goes: Predicate) -> list[Segment]:
    """Segments from the oldest on, as long as `goes` says so.

    None at or above the high watermark goes, so that the log start never passes it; and an empty last segment
    stays.  All may go: then the log rolls first, as it must have one.
    """
    segments = list(log.segments)
    found: list[Segment] = []
    for index, segment in enumerate(segments):
        following = segments[index + 1] if index + 1 < len(segments) else None
        upper_bound = log.end_offset if following is None else following.base_offset
        if following is None and segment.size == 0:
            break
        if log.high_watermark < upper_bound or not goes(segment, following):
            break
        found.append(segment)
    return found
