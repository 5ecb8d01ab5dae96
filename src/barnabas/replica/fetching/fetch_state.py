"""One partition as its follower fetches it: from which offset, in which leader epoch, and what it waits for.

Contains how fetched data changes the follower's log; requests, errors and back-off belong in fetcher.py.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

from barnabas.base.ids import Uuid
from barnabas.batch.view import Buffer
from barnabas.replica.fetching.fetch_session import FetchPosition, PartitionKey
from barnabas.replica.fetching.truncation import OffsetAtEpoch
from barnabas.replica.partition import NO_EPOCH, PartitionLog

UNSENT = -1


class AppendedOffsets(Protocol):
    """What an append returns."""

    @property
    def bytes_appended(self) -> int: ...


class FollowerLog(PartitionLog, Protocol):
    """A log as the follower side uses it.  Truncation waits for the device, so the driver carries it out."""

    @property
    def latest_epoch(self) -> int | None:
        """The last leader epoch in the log; None if there is none."""
        ...

    def end_offset_for_epoch(self, epoch: int, /) -> OffsetAtEpoch: ...

    def append_as_follower(self, buffer: Buffer, leader_epoch: int, /) -> AppendedOffsets: ...

    def set_high_watermark(self, offset: int, /) -> int: ...

    def advance_log_start(self, offset: int, /) -> bool: ...


class FollowedPartition(Protocol):
    """A `replica.partition.Partition` as the follower side uses it."""

    @property
    def topic(self) -> str: ...

    @property
    def index(self) -> int: ...

    @property
    def topic_id(self) -> Uuid: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def is_leader(self) -> bool: ...

    @property
    def log(self) -> FollowerLog | None: ...

    @property
    def awaits_flush(self) -> bool: ...


class Phase(Enum):
    """What a partition waits for."""

    FETCHING = "records of the leader"
    TRUNCATING = "the truncation of its log"
    FLUSHING = "the flush of its log, which flush.messages requires"
    NOTING_GAPS = "the note that offsets may be missing in its log"
    LATEST = "the end offset of the leader's log"
    EARLIEST = "the start offset of the leader's log"
    NO_ROOM = "space in its log directory"
    FENCED = "a newer leader epoch in the metadata"


class Truncation(NamedTuple):
    """A truncation for the driver to carry out; it reports the end to `Fetcher.truncated`.

    If `log_start_offset` is set, all records go, and the log begins again at `offset`.
    """

    state: FetchState
    offset: int
    log_start_offset: int | None = None


class FetchState:
    """A partition in one leader epoch; another epoch has another state."""

    __slots__ = (
        "failures",
        "key",
        "lag",
        "last_epoch",
        "leader_epoch",
        "offset",
        "partition",
        "phase",
        "ready_ns",
        "requested_offset",
        "undone",
    )

    def __init__(self, partition: FollowedPartition) -> None:
        self.partition = partition
        self.key: PartitionKey = (partition.topic_id, partition.index)
        self.leader_epoch = partition.leader_epoch
        self.phase = Phase.FETCHING
        self.offset = 0
        self.last_epoch = NO_EPOCH
        # The offset of the last request; a response to another request is ignored.
        self.requested_offset = UNSENT
        # Not fetched before this time.
        self.ready_ns = 0
        # Errors in a row.
        self.failures = 0
        # How far the log is behind the leader's high watermark; None before the first response.
        self.lag: int | None = None
        # Records to append after a truncation.
        self.undone: bytes | None = None
        self.restart()

    def __repr__(self) -> str:
        partition = self.partition
        return f"{partition.topic}-{partition.index} at offset {self.offset} in epoch {self.leader_epoch}"

    def restart(self) -> None:
        """Continue at the end of the log, with the epoch of its last batch."""
        log = self.partition.log
        if log is not None:
            epoch = log.latest_epoch
            self.offset = log.end_offset
            self.last_epoch = NO_EPOCH if epoch is None else epoch
        self.requested_offset = UNSENT
        self.phase = Phase.FETCHING

    @property
    def is_current(self) -> bool:
        """Whether the partition still follows in this epoch, and has its log."""
        partition = self.partition
        return (
            partition.log is not None
            and not partition.is_leader
            and partition.leader_epoch == self.leader_epoch
        )

    def position(self) -> FetchPosition:
        log = self.partition.log
        assert log is not None, "only a partition with a log is fetched"
        return FetchPosition(self.leader_epoch, self.offset, self.last_epoch, log.log_start_offset)

    # Taking over

    def append(self, log: FollowerLog, records: Buffer) -> int:
        """Append what the leader has sent; returns the number of bytes."""
        size = log.append_as_follower(records, self.leader_epoch).bytes_appended
        if size:
            # Without new batches the last fetched epoch stays what it was (KAFKA-15510).
            epoch = log.latest_epoch
            self.offset = log.end_offset
            self.last_epoch = NO_EPOCH if epoch is None else epoch
        return size

    def follow_watermarks(self, log: FollowerLog, high_watermark: int, log_start_offset: int) -> bool:
        """Take over the leader's offsets; returns whether the high watermark advanced."""
        before = log.high_watermark
        if high_watermark >= 0:
            self.lag = max(0, high_watermark - log.end_offset)
            wanted = max(min(high_watermark, log.end_offset), log.log_start_offset)
            if wanted != before:
                log.set_high_watermark(wanted)
        if log_start_offset > log.log_start_offset:
            # Never beyond what is committed here: the leader's offsets may be newer than its records.
            log.advance_log_start(min(log_start_offset, log.high_watermark))
        return log.high_watermark > before
