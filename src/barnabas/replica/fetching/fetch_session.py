"""The follower's side of an incremental fetch session (KIP-227): requests name only changed partitions.

The leader's side is replica/fetch_sessions.py.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.replica.fetch_sessions import INITIAL_EPOCH, NO_SESSION, next_epoch

# Topic id and index: a topic that is created again is another one.
PartitionKey = tuple[Uuid, int]


class FetchPosition(NamedTuple):
    """What a request says of one partition."""

    leader_epoch: int
    offset: int
    last_epoch: int
    log_start_offset: int


class FollowerSession:
    """The session of one fetcher with one leader."""

    __slots__ = ("epoch", "id", "sent")

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        # What the leader has been sent last, or is about to be.
        self.sent: dict[PartitionKey, FetchPosition] = {}

    @property
    def is_full(self) -> bool:
        """Whether the next request must name all partitions."""
        return self.epoch == INITIAL_EPOCH

    def accepted(self, session_id: int) -> None:
        """Called when the leader has accepted a request."""
        if session_id == NO_SESSION:
            self.reset()
        else:
            self.id = session_id
            self.epoch = next_epoch(self.epoch)

    def refused(self, error: ErrorCode) -> None:
        """The leader does not have this session, or not in this state: the next request starts another."""
        if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.reset()
        else:
            # With the id, so that the leader closes the old session.
            self.epoch = INITIAL_EPOCH
            self.sent = {}

    def reset(self) -> None:
        """The leader's state of the session is unknown: the next request starts another."""
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.sent = {}
