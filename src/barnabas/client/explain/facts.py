"""The facts from which a group's lack of progress is explained.

Plain data, None where a fact is unknown.  Collecting belongs in `gather`, conclusions in `rules`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.base.lag import lag
from barnabas.client.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Member:
    """A consumer in the group."""

    member_id: str
    client_id: str
    host: str
    partitions: frozenset[TopicPartition] = frozenset()
    # Its target assignment (KIP-848); None for groups without one.
    target: frozenset[TopicPartition] | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """The group as its coordinator describes it."""

    group_id: str
    # Stable, Empty, PreparingRebalance, … as Apache Kafka writes them; None if there is no such group.
    state: str | None
    type: str = ""
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that has written to a partition and is neither committed nor aborted."""

    producer_id: int
    start_offset: int
    transactional_id: str | None = None
    state: str | None = None
    started_ms: int | None = None
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition that the group reads, and its progress."""

    topic_partition: TopicPartition
    leader: int | None
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    # min.insync.replicas of the topic.
    min_isr: int | None = None
    log_start: int | None = None
    # The end of the leader's log; readers see what lies below the high watermark, and with
    # isolation.level=read_committed what lies below the last stable offset.
    log_end: int | None = None
    high_watermark: int | None = None
    last_stable: int | None = None
    # The group's committed offset at the first and at the last observation.
    committed_before: int | None = None
    committed: int | None = None
    transactions: tuple[OpenTransaction, ...] = ()
    # Why the next record cannot be read or decoded, if it cannot.
    next_fault: str | None = None
    # Whether the consumer reports the partition as paused; None if it cannot be queried.
    is_paused: bool | None = None

    @property
    def wanted_isr(self) -> int | None:
        """How many replicas must be in sync for the high watermark to advance (KIP-966)."""
        return None if self.min_isr is None else min(self.min_isr, len(self.replicas))

    @property
    def readable(self) -> int | None:
        """Records that a read_committed reader could read now and has not committed."""
        end = self.last_stable if self.last_stable is not None else self.high_watermark
        if end is None or self.committed is None:
            return None
        return lag(self.committed, self.log_start or 0, end)

    @property
    def lag(self) -> int | None:
        if self.high_watermark is None or self.committed is None:
            return None
        return lag(self.committed, self.log_start or 0, self.high_watermark)

    @property
    def has_moved(self) -> bool:
        return self.committed != self.committed_before


@dataclass(frozen=True, slots=True)
class Denial:
    """An operation that the consumer is not authorized for."""

    # "topic orders" or "group billing".
    resource: str
    operation: str
    principal: str
    # The ACL that denies it, or that there is none.
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """A recent event of the group, as recorded by its coordinator."""

    at_ms: int
    what: str
    who: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything known about a group at one time."""

    group: Group
    partitions: tuple[PartitionFacts, ...] = ()
    # Topics that the group is subscribed to, or that were named by the caller, and that do not exist.
    missing_topics: tuple[str, ...] = ()
    denials: tuple[Denial, ...] = ()
    events: tuple[GroupEvent, ...] = ()
    now_ms: int = 0
    # The time between the two observations; 0 if there was only one.
    watched_ms: int = 0
    # Facts that could not be determined, and why.
    unknown: tuple[str, ...] = field(default=())
