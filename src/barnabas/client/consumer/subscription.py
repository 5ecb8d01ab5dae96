"""What a consumer reads: the topics it wants, the partitions it has, and how far it is in each.

What lives here: state and the rules by which it changes.  What may not: requests.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Protocol

from barnabas.client.consumer.fetch.completed_fetch import CompletedFetch
from barnabas.client.model import NO_EPOCH, NO_NODE, TopicPartition

NO_OFFSET = -1


class RebalanceListener(Protocol):
    """A user's own object; each method may be a coroutine, and may be left out."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> object: ...

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> object: ...

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> object: ...


class Mode(Enum):
    """How a consumer comes to its partitions; one at a time."""

    NONE = "nothing is subscribed to or assigned"
    TOPICS = "topics are subscribed to"
    PATTERN = "a pattern is subscribed to"
    SERVER_PATTERN = "a pattern that the broker matches is subscribed to"
    ASSIGNED = "partitions are assigned by hand"


class PartitionState:
    """How far a consumer is in one partition."""

    __slots__ = (
        "checked_epoch",
        "chunks",
        "fetch_offset",
        "high_watermark",
        "is_paused",
        "is_revoked_soon",
        "last_stable_offset",
        "log_start_offset",
        "offset_epoch",
        "position",
        "preferred_replica",
        "reset_to",
        "where",
    )

    def __init__(self, where: TopicPartition) -> None:
        self.where = where
        # The offset of the next record that the user gets; -1 until it is found out.
        self.position = NO_OFFSET
        # The leader epoch of the record before it, as far as it is known.
        self.offset_epoch = NO_EPOCH
        # The leader epoch for which the position is known to be in the log.
        self.checked_epoch = NO_EPOCH
        # What is read ahead ends before this offset.
        self.fetch_offset = NO_OFFSET
        self.chunks: deque[CompletedFetch] = deque()
        # The time to look up when the position has to be found anew (-1 latest, -2 earliest).
        self.reset_to: int | None = None
        self.is_paused = False
        # It has to be given back: nothing of it is handed out any more.
        self.is_revoked_soon = False
        self.high_watermark = NO_OFFSET
        self.last_stable_offset = NO_OFFSET
        self.log_start_offset = NO_OFFSET
        self.preferred_replica = NO_NODE

    @property
    def has_position(self) -> bool:
        return self.position >= 0 and self.reset_to is None

    @property
    def is_fresh(self) -> bool:
        """Whether nobody has said yet where to read: no commit, no policy, no seek."""
        return self.position < 0 and self.reset_to is None

    def seek(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """Go on from another offset; what was read ahead is of no use then."""
        self.position = self.fetch_offset = offset
        self.offset_epoch = epoch
        self.reset_to = None
        self.chunks.clear()

    def reset(self, time: int) -> None:
        """Find the position anew."""
        self.reset_to = time
        self.chunks.clear()


class Subscription:
    """The topics that are wanted and the partitions that are there."""

    def __init__(self) -> None:
        self.mode = Mode.NONE
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.server_pattern: str | None = None
        self.listener: RebalanceListener | None = None
        self.partitions: dict[TopicPartition, PartitionState] = {}
        # Grows when the wanted topics change: members then tell their group.
        self.generation = 0

    @property
    def is_group_managed(self) -> bool:
        return self.mode in (Mode.TOPICS, Mode.PATTERN, Mode.SERVER_PATTERN)

    def subscribe(
        self,
        topics: Iterable[str],
        *,
        pattern: re.Pattern[str] | None = None,
        server_pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        if self.mode is Mode.ASSIGNED:
            raise RuntimeError("partitions are assigned by hand: unsubscribe() first")
        if pattern is not None:
            self.mode = Mode.PATTERN
        elif server_pattern is not None:
            self.mode = Mode.SERVER_PATTERN
        else:
            self.mode = Mode.TOPICS
        self.pattern, self.server_pattern, self.listener = pattern, server_pattern, listener
        self.change_topics(topics)

    def change_topics(self, topics: Iterable[str]) -> bool:
        """The wanted topics are others now; False if they are the same."""
        wanted = frozenset(topics)
        changed = wanted != self.topics
        self.topics = wanted
        self.generation += 1
        return changed

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """By hand."""
        if self.is_group_managed:
            raise RuntimeError("topics are subscribed to: unsubscribe() before assigning partitions")
        self.mode = Mode.ASSIGNED
        self.set_partitions(partitions)

    def set_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """These and no others; those that stay keep their positions."""
        former = self.partitions
        self.partitions = {where: former.get(where) or PartitionState(where) for where in partitions}

    def clear(self) -> None:
        self.mode = Mode.NONE
        self.topics = frozenset()
        self.pattern = self.server_pattern = self.listener = None
        self.partitions = {}
        self.generation += 1

    def state(self, where: TopicPartition) -> PartitionState:
        found = self.partitions.get(where)
        if found is None:
            raise ValueError(f"{where} is not assigned to this consumer")
        return found

    def positions(self) -> Mapping[TopicPartition, PartitionState]:
        """Those that have one."""
        return {where: state for where, state in self.partitions.items() if state.has_position}
