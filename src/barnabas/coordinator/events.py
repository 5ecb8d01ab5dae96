"""Recent events of groups and transactional ids: what happened, when and why.

Each id has a bounded ring of events, and the number of ids is bounded.  Events are soft state for tools and
operators: no decision depends on them, and a reloaded shard starts without any.

Commits are frequent, so they are aggregated: one event counts the commits until another event occurs or the
time window ends.

    machine.events.note(group_id, context.now_ms, EventKind.MEMBER_JOINED, who=member_id, reason=text)
    machine.events.of(group_id)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

# The maximum number of events per id; the oldest is removed first.
MAX_EVENTS_PER_ID = 64
# The maximum number of ids with events per shard; the least recently active is removed first.
MAX_IDS = 10_000
# Commits within this time are one event.
COMMITS_WINDOW_MS = 10_000
# Reasons come from clients and can be as long as a protocol string.
MAX_REASON_CHARACTERS = 255


class EventKind(StrEnum):
    """The kinds of events."""

    # Of a group.
    MEMBER_JOINED = "member joined"
    MEMBER_LEFT = "member left"
    MEMBER_EXPIRED = "member expired"
    MEMBER_FENCED = "member fenced"
    REBALANCE_STARTED = "rebalance started"
    GENERATION = "new generation"
    ASSIGNMENT = "new assignment"
    GROUP_EMPTY = "group empty"
    GROUP_CONVERTED = "group converted"
    GROUP_DELETED = "group deleted"
    OFFSETS_COMMITTED = "offsets committed"
    OFFSETS_PENDING = "offsets pending in a transaction"
    OFFSETS_DELETED = "offsets deleted"
    OFFSETS_EXPIRED = "offsets expired"
    # Of a transactional id.
    PRODUCER_STARTED = "producer started"
    PRODUCER_FENCED = "producer fenced"
    TRANSACTION_STARTED = "transaction started"
    PARTITIONS_ADDED = "partitions added"
    TRANSACTION_COMMITTING = "transaction committing"
    TRANSACTION_COMMITTED = "transaction committed"
    TRANSACTION_ABORTING = "transaction aborting"
    TRANSACTION_ABORTED = "transaction aborted"
    TRANSACTION_TIMED_OUT = "transaction timed out"
    TRANSACTIONAL_ID_EXPIRED = "transactional id expired"


@dataclass(frozen=True, slots=True)
class Event:
    """An event, with its wall-clock time."""

    at_ms: int
    kind: EventKind
    # A member id, or a producer as "id/epoch".
    who: str = ""
    reason: str = ""
    # The resulting generation, group epoch or producer epoch; -1 if none.
    generation: int = -1
    # For aggregated events: how many, and the time of the last one.
    count: int = 1
    until_ms: int = -1


class _Commits:
    """An aggregated event that still grows."""

    __slots__ = ("at_ms", "count", "until_ms")

    def __init__(self, at_ms: int, count: int) -> None:
        self.at_ms = at_ms
        self.count = count
        self.until_ms = at_ms

    def event(self) -> Event:
        return Event(self.at_ms, EventKind.OFFSETS_COMMITTED, count=self.count, until_ms=self.until_ms)


class Events:
    """The recent events of every id of one shard."""

    __slots__ = ("_rings",)

    def __init__(self) -> None:
        # In the order of their last event: the first is the least recently active.
        self._rings: dict[str, list[Event | _Commits]] = {}

    def __len__(self) -> int:
        """The number of ids with events."""
        return len(self._rings)

    def note(
        self,
        name: str,
        at_ms: int,
        kind: EventKind,
        *,
        who: str = "",
        reason: str = "",
        generation: int = -1,
        count: int = 1,
    ) -> None:
        """Record an event of this group or transactional id."""
        truncated = (
            reason if len(reason) <= MAX_REASON_CHARACTERS else reason[: MAX_REASON_CHARACTERS - 1] + "…"
        )
        self._add(name, Event(at_ms, kind, who, truncated, generation, count, at_ms))

    def committed(self, name: str, at_ms: int, partitions: int) -> None:
        """Record a commit of offsets for this many partitions."""
        ring = self._rings.get(name)
        if ring:
            last = ring[-1]
            if type(last) is _Commits and 0 <= at_ms - last.at_ms < COMMITS_WINDOW_MS:
                last.count += partitions
                last.until_ms = at_ms
                return
        self._add(name, _Commits(at_ms, partitions))

    def of(self, name: str) -> Sequence[Event]:
        """The recorded events of this id, oldest first."""
        return tuple(
            event.event() if isinstance(event, _Commits) else event for event in self._rings.get(name, ())
        )

    def names(self) -> Sequence[str]:
        """The ids with events; the one with the newest event is last."""
        return tuple(self._rings)

    def forget(self, name: str) -> None:
        """Discard the events of this id."""
        self._rings.pop(name, None)

    def _add(self, name: str, event: Event | _Commits) -> None:
        rings = self._rings
        ring = rings.pop(name, None)
        if ring is None:
            ring = []
            if len(rings) >= MAX_IDS:
                del rings[next(iter(rings))]
        elif len(ring) >= MAX_EVENTS_PER_ID:
            del ring[0]
        ring.append(event)
        rings[name] = ring
