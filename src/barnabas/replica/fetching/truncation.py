"""Where a follower truncates its log: by leader epochs, never by the high watermark (KIP-101, KIP-279)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

UNDEFINED_OFFSET = -1


class OffsetAtEpoch(Protocol):
    """The end offset of a leader epoch; -1 if it is unknown."""

    @property
    def epoch(self) -> int: ...

    @property
    def end_offset(self) -> int: ...


class LogWithEpochs(Protocol):
    """What the decision needs to know of the follower's log."""

    @property
    def end_offset(self) -> int: ...

    def end_offset_for_epoch(self, epoch: int, /) -> OffsetAtEpoch: ...


class TruncationPoint(NamedTuple):
    """The offset to truncate to, and whether the logs agree below it, as far as the follower can tell."""

    offset: int
    is_final: bool


def truncation_point(log: LogWithEpochs, epoch: int, end_offset: int) -> TruncationPoint:
    """Where to truncate if the leader's log has this end offset in its largest epoch not above ours.

    A leader epoch that the follower does not have ends the comparison for now: the follower truncates to the
    end of its largest epoch below that one, and fetches again from there.
    """
    own = log.end_offset_for_epoch(epoch)
    if own.end_offset == UNDEFINED_OFFSET:
        # No epoch of ours is that old.
        return TruncationPoint(min(end_offset, log.end_offset), is_final=True)
    if own.epoch != epoch:
        return TruncationPoint(min(own.end_offset, log.end_offset), is_final=False)
    return TruncationPoint(min(own.end_offset, end_offset, log.end_offset), is_final=True)
