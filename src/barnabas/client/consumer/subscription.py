"""A consumer's subscription, assigned partitions and positions: state without requests."""

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
    """A user-defined object; a subclass defines the methods that it needs, each of which may be a
    coroutine."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> object:
        """These partitions were added; called before their first record is delivered."""
        return None

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> object:
        """These partitions are about to go to other members; commits still work."""
        return None

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> object:
        """These partitions have gone already; commits fail."""
        return self.on_partitions_revoked(partitions)


class Mode(Enum):
    """How a consumer gets its partitions."""

    NONE = "no subscription or assignment"
    TOPICS = "subscribed to topics"
    PATTERN = "subscribed to a pattern"
    SERVER_PATTERN = "subscribed to a pattern that the broker matches"
    ASSIGNED = "partitions assigned manually"
    WHOLE_TOPICS = "all partitions of topics, without a group"


class PartitionState:
    """The position and fetch state of one partition."""

    __slots__ = (
        "checked_epoch",
        "completed_fetches",
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
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        # The offset of the next record for the user; -1 while unknown.
        self.position = NO_OFFSET
        # The leader epoch of the record before it, if known.
        self.offset_epoch = NO_EPOCH
        # The leader epoch for which the position was validated.
        self.checked_epoch = NO_EPOCH
        # The offset of the next fetch, after what was fetched ahead.
        self.fetch_offset = NO_OFFSET
        self.completed_fetches: deque[CompletedFetch] = deque()
        # The timestamp to look up when the position must be reset (-1 latest, -2 earliest).
        self.reset_to: int | None = None
        self.is_paused = False
        # It is about to be revoked: no more of its records are delivered.
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
        """Whether the position is not yet determined by a commit, the reset policy or a seek."""
        return self.position < 0 and self.reset_to is None

    def seek(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """Continue at another offset; discards what was fetched ahead."""
        self.position = self.fetch_offset = offset
        self.offset_epoch = epoch
        self.reset_to = None
        self.completed_fetches.clear()

    def forget_position(self) -> None:
        """Find the position as for a partition that was just assigned."""
        self.seek(NO_OFFSET)
        self.checked_epoch = NO_EPOCH

    def reset(self, time: int) -> None:
        """Look the position up again."""
        self.reset_to = time
        self.completed_fetches.clear()


class Subscription:
    """The subscribed topics and the assigned partitions."""

    def __init__(self) -> None:
        self.mode = Mode.NONE
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.server_pattern: str | None = None
        self.listener: RebalanceListener | None = None
        self.partitions: dict[TopicPartition, PartitionState] = {}
        # Incremented when the subscribed topics change: members then report them to their group.
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
        if self.mode in (Mode.ASSIGNED, Mode.WHOLE_TOPICS):
            raise RuntimeError("partitions are assigned manually: unsubscribe() first")
        if pattern is not None:
            self.mode = Mode.PATTERN
        elif server_pattern is not None:
            self.mode = Mode.SERVER_PATTERN
        else:
            self.mode = Mode.TOPICS
        self.pattern, self.server_pattern, self.listener = pattern, server_pattern, listener
        self.change_topics(topics)

    def change_topics(self, topics: Iterable[str]) -> bool:
        """Set the subscribed topics; returns False if they are the same."""
        wanted = frozenset(topics)
        changed = wanted != self.topics
        self.topics = wanted
        self.generation += 1
        return changed

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign partitions manually."""
        if self.is_group_managed:
            raise RuntimeError("topics are subscribed: unsubscribe() before assigning partitions")
        self.topics = frozenset()
        self.mode = Mode.ASSIGNED
        self.set_partitions(partitions)

    def read_whole(self, topics: Iterable[str]) -> None:
        """Read every partition of topics, also those that are added later, without a group."""
        self.mode = Mode.WHOLE_TOPICS
        self.change_topics(topics)

    def set_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment; partitions that stay keep their positions."""
        former = self.partitions
        self.partitions = {
            partition: former.get(partition) or PartitionState(partition) for partition in partitions
        }

    def clear(self) -> None:
        self.mode = Mode.NONE
        self.topics = frozenset()
        self.pattern = self.server_pattern = self.listener = None
        self.partitions = {}
        self.generation += 1

    def state(self, topic_partition: TopicPartition) -> PartitionState:
        state = self.partitions.get(topic_partition)
        if state is None:
            raise ValueError(f"{topic_partition} is not assigned to this consumer")
        return state

    def positions(self) -> Mapping[TopicPartition, PartitionState]:
        """Return the partitions that have a position."""
        return {partition: state for partition, state in self.partitions.items() if state.has_position}
