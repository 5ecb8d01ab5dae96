"""Consumer lag: its single definition."""

from __future__ import annotations


def lag(committed_offset: int, log_start_offset: int, end_offset: int) -> int:
    """Records of a partition that a group has yet to read.

    `end_offset` is the high watermark, or the last stable offset with read_committed.  Deleted records do not
    count, and a group that is ahead of a truncated log has no lag.
    """
    return max(end_offset - max(committed_offset, log_start_offset), 0)
