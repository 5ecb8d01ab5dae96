"""What goes from a fetcher to its driver: partitions to process, and what that has led to."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.replica.fetching.fetch_state import FetchState, Truncation


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
