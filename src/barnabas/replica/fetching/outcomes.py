"""What goes from a fetcher to its driver: partitions to process, and what that has led to."""

from __future__ import annotations

import logging
from typing import NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.replica.fetching.fetch_state import FetchState, Truncation

logger = logging.getLogger(__name__)
# The leader, or this broker, has not learnt yet what the other already knows.
TRANSIENT = frozenset(
    (
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
    )
)
SESSION_ERRORS = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
)


class Fetched(NamedTuple):
    """One partition of a response, to be processed."""

    state: FetchState
    data: FetchResponse.PartitionData


class Outcome(NamedTuple):
    """What processing one partition has led to."""

    bytes_appended: int = 0
    high_watermark_advanced: bool = False
    must_flush: bool = False
    # The leader's log is compacted: that offsets may be missing must be noted before the first gap.
    must_note_gaps: bool = False
    truncation: Truncation | None = None


NOTHING = Outcome()


def log_waits(refused: dict[int, list[FetchState]]) -> None:
    """One line for all partitions that a response refuses until there is newer metadata, here or there.

    A leader that resigns or is replaced refuses all of them at once.
    """
    for code, states in refused.items():
        if code in TRANSIENT or code == ErrorCode.FENCED_LEADER_EPOCH:
            others = f" and {len(states) - 1} more" if len(states) > 1 else ""
            name = ErrorCode(code).name
            logger.info("%s from the leader for %r%s; waiting for metadata", name, states[0], others)
