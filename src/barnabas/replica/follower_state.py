"""The leader's view of its followers: how far each has fetched, and when it was last caught up.

Contains one follower's state, and how its fetches change it.  The consequences for the ISR and the high
watermark belong in partition.py.
"""

from __future__ import annotations

UNKNOWN_OFFSET = -1
NO_BROKER_EPOCH = -1
LONG_AGO_NS = -(2**62)


class Follower:
    """Another replica of a partition, as its leader sees it.  Times are monotonic."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "caught_up_ns",
        "end_offset",
        "fetched_ns",
        "leader_end_at_fetch",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        # None until it has fetched: whether it may join the ISR is not known before that (KIP-903).
        self.broker_epoch: int | None = None
        self.end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.leader_end_at_fetch = UNKNOWN_OFFSET
        self.fetched_ns = LONG_AGO_NS
        self.caught_up_ns = LONG_AGO_NS

    def begin_epoch(self, now_ns: int, leader_end_offset: int, *, new_leader: bool, in_sync: bool) -> None:
        """A leader epoch begins: a follower in the ISR gets the full lag time to catch up."""
        self.caught_up_ns = now_ns if in_sync else LONG_AGO_NS
        if new_leader:
            self.broker_epoch = None
            self.end_offset = self.log_start_offset = self.leader_end_at_fetch = UNKNOWN_OFFSET
            self.fetched_ns = LONG_AGO_NS
        else:
            self.leader_end_at_fetch = leader_end_offset
            self.fetched_ns = now_ns if in_sync else LONG_AGO_NS

    def fetched(
        self, offset: int, log_start_offset: int, broker_epoch: int, leader_end_offset: int, now_ns: int
    ) -> None:
        """The follower fetches from this offset on, so it has everything before.

        It is caught up now if that is the end of the log; or it was caught up at its last fetch, if that was
        the end of the log then: a follower that is always slightly behind a busy leader is in sync all the
        same.
        """
        if offset >= leader_end_offset:
            self.caught_up_ns = max(self.caught_up_ns, now_ns)
        elif offset >= self.leader_end_at_fetch:
            self.caught_up_ns = max(self.caught_up_ns, self.fetched_ns)
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.leader_end_at_fetch = max(leader_end_offset, self.leader_end_at_fetch)
        self.fetched_ns = now_ns

    def was_caught_up(self, fetched_ns: int) -> None:
        """It has fetched at that time from the end of the log, which had not moved since its last fetch."""
        self.caught_up_ns = max(self.caught_up_ns, fetched_ns)
        self.fetched_ns = max(self.fetched_ns, fetched_ns)

    def is_caught_up(self, leader_end_offset: int, now_ns: int, lag_max_ns: int) -> bool:
        return self.end_offset == leader_end_offset or now_ns - self.caught_up_ns <= lag_max_ns

    def __repr__(self) -> str:
        return f"Follower({self.broker_id}, end {self.end_offset}, broker epoch {self.broker_epoch})"
