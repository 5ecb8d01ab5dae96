"""What has to be known about a group to say why it does not get on.

What lives here: plain data, None where nobody could find out.  What may not: where it comes from (gather),
and what it means (rules).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.base.lag import lag
from barnabas.client.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Member:
    """A consumer of the group."""

    member_id: str
    client_id: str
    host: str
    partitions: frozenset[TopicPartition] = frozenset()
    # What it will have when it has given back and taken over (KIP-848); None where groups have no such thing.
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
    """A transaction that has written into a partition and is neither committed nor aborted."""

    producer_id: int
    start_offset: int
    transactional_id: str | None = None
    state: str | None = None
    started_ms: int | None = None
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition that the group reads, and how far it is in it."""

    where: TopicPartition
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
    # What the group has committed, at the first look and at the last.
    committed_before: int | None = None
    committed: int | None = None
    transactions: tuple[OpenTransaction, ...] = ()
    # Why the next record cannot be read or decoded.
    next_fault: str | None = None
    # Whether the consumer says that it has paused the partition; None where it cannot be asked.
    is_paused: bool | None = None

    @property
    def wanted_isr(self) -> int | None:
        """How many replicas have to be in sync for the high watermark to move (KIP-966)."""
        return None if self.min_isr is None else min(self.min_isr, len(self.replicas))

    @property
    def readable(self) -> int | None:
        """Records that a cautious reader could read now and has not committed."""
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
    """Something that the consumer may not do."""

    # "topic orders" or "group billing".
    resource: str
    operation: str
    principal: str
    # What decides so: a rule, or that there is none.
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened to the group lately, as its coordinator remembers."""

    at_ms: int
    what: str
    who: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known about a group at one time."""

    group: Group
    partitions: tuple[PartitionFacts, ...] = ()
    # Topics that the group is subscribed to, or that were asked for, and that do not exist.
    missing_topics: tuple[str, ...] = ()
    denials: tuple[Denial, ...] = ()
    happenings: tuple[Happening, ...] = ()
    now_ms: int = 0
    # How long lies between the two looks; 0 if there was only one.
    watched_ms: int = 0
    # What could not be found out, and why.
    unknown: tuple[str, ...] = field(default=())
