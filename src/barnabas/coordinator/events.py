"""Recent events of groups and transactional ids: what happened to them lately, when and why.

What lives here: a bounded ring of events for each id, and a bound on the number of ids.  What may not:
decisions.  Events are soft: they are told to tools and people, nothing depends on them, and a shard that is
loaded anew begins with none.

Commits come by the thousand, so they are summed up: one event tells how many came since when, until something
else happens or a while has passed.

    machine.events.note(group_id, context.now_ms, EventKind.MEMBER_JOINED, who=member_id, reason=text)
    machine.events.of(group_id)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

# Events kept of one id; the oldest goes first.
MAX_EVENTS_PER_ID = 64
# Ids of one shard whose events are kept; the one that was silent for longest goes first.
MAX_IDS = 10_000
# Commits within so long are one event.
COMMITS_WINDOW_MS = 10_000
# Reasons come from clients, and may be as long as a string can be.
MAX_REASON_CHARACTERS = 255


class EventKind(StrEnum):
    """What may happen."""

    # To a group.
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
    # To a transactional id.
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
    """Something that happened, at a time of the wall clock."""

    at_ms: int
    kind: EventKind
    # Who it was: a member id, or a producer as "id/epoch".
    who: str = ""
    reason: str = ""
    # Generation, group epoch or producer epoch that it led to; -1 if it led to none.
    generation: int = -1
    # Of summed up events: how many, and when the last of them was.
    count: int = 1
    until_ms: int = -1


class _Commits:
    """A sum that still grows."""

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
        # In order of their last event: the first is the one that was silent for longest.
        self._rings: dict[str, list[Event | _Commits]] = {}

    def __len__(self) -> int:
        """How many ids have events."""
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
        """Something happened to this group or transactional id."""
        short = reason if len(reason) <= MAX_REASON_CHARACTERS else reason[: MAX_REASON_CHARACTERS - 1] + "…"
        self._add(name, Event(at_ms, kind, who, short, generation, count, at_ms))

    def committed(self, name: str, at_ms: int, partitions: int) -> None:
        """Offsets of so many partitions were committed."""
        ring = self._rings.get(name)
        if ring:
            last = ring[-1]
            if type(last) is _Commits and 0 <= at_ms - last.at_ms < COMMITS_WINDOW_MS:
                last.count += partitions
                last.until_ms = at_ms
                return
        self._add(name, _Commits(at_ms, partitions))

    def of(self, name: str) -> Sequence[Event]:
        """The events of this id that are still known, oldest first."""
        return tuple(
            event.event() if isinstance(event, _Commits) else event for event in self._rings.get(name, ())
        )

    def names(self) -> Sequence[str]:
        """The ids that have events; the one with the newest comes last."""
        return tuple(self._rings)

    def forget(self, name: str) -> None:
        """Nobody will ask for this id again."""
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
