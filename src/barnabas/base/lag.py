"""How far a group is behind: the one place that says what lag is."""

from __future__ import annotations


def lag(committed_offset: int, log_start_offset: int, end_offset: int) -> int:
    """Records of a partition that a group has yet to read.

    `end_offset` is the high watermark, or the last stable offset for readers of committed records.  What was
    deleted cannot be read any more, and after a truncation a group may be ahead of the log: then nothing is
    left to read.
    """
    return max(end_offset - max(committed_offset, log_start_offset), 0)
