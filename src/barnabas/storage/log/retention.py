"""Retention: which segments of a log are expired (M-E3).

A segment is deleted if it lies before the log start offset, if the log is too large, or if its records are
too old.  log.py deletes it; the log tasks run retention for cleanup.policy=delete, the cleaner for compacted
logs.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.storage.log.log import Log
from barnabas.storage.segment.segment import Segment

Predicate = Callable[[Segment, Segment | None], bool]


def expire(log: Log, now_ms: int) -> int:
    """Delete expired segments; returns their number.  `now_ms` is wall-clock time."""
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
    """Segments whose last record lies before the log start offset (advanced by DeleteRecords)."""
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


def _oldest(log: Log, is_deletable: Predicate) -> list[Segment]:
    """Segments from the oldest on, as long as `is_deletable` holds.

    Segments at or above the high watermark are kept, so that the log start offset never passes it, and so is
    an empty last segment.  If all others are deletable, the log rolls first, since it needs one segment.
    """
    segments = list(log.segments)
    found: list[Segment] = []
    for index, segment in enumerate(segments):
        following = segments[index + 1] if index + 1 < len(segments) else None
        upper_bound = log.end_offset if following is None else following.base_offset
        if following is None and segment.size == 0:
            break
        if log.high_watermark < upper_bound or not is_deletable(segment, following):
            break
        found.append(segment)
    return found
