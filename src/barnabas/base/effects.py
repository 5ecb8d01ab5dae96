"""Events and effects of a sans-IO protocol core: events go in, effects come out.

Contains plain frozen data and the interface of a core.  Carrying out an effect belongs in
`runtime.loop.executor`; nothing here knows what a message, an entry or a timer means.

The effects of a core form one queue.  Effects that leave the core (Send, Reply, Apply) wait for every Persist
that was requested before them; the core continues to take events meanwhile.  Timers belong to the core and
are set at once: a timeout that was postponed must not fire because the disk is slow.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

# ---------------------------------------------------------------------------------------------- effects


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to another node.  It may be lost, delayed, duplicated, or overtaken by a later one."""

    to: int
    message: object


@dataclass(frozen=True, slots=True)
class Persist:
    """Write an entry; effects requested after it happen only once the entry is on stable storage.

    With a token the core receives `Persisted(token)` at that moment, before its later effects are released.
    """

    entry: object
    token: Hashable | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """Respond to a request.  `to` is the handle that came with `Requested`."""

    to: Hashable
    message: object


@dataclass(frozen=True, slots=True)
class Apply:
    """Pass on a decision (a committed entry, a new state) to the component that acts on it."""

    decided: object


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Step with `Fired(key)` at this monotonic time; replaces an earlier deadline of the same key."""

    key: Hashable
    deadline_ns: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Cancel a timer; does nothing if there is none."""

    key: Hashable


Effect: TypeAlias = Send | Persist | Reply | Apply | SetTimer | CancelTimer

# ----------------------------------------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Received:
    """A message from another node has arrived."""

    sender: int
    message: object


@dataclass(frozen=True, slots=True)
class Requested:
    """A request has arrived; its sender waits for a `Reply` to this handle."""

    reply_to: Hashable
    message: object


@dataclass(frozen=True, slots=True)
class Persisted:
    """The entry of the `Persist` with this token is on stable storage."""

    token: Hashable


@dataclass(frozen=True, slots=True)
class Fired:
    """A timer's deadline has passed."""

    key: Hashable


Event: TypeAlias = Received | Requested | Persisted | Fired


class Core(Protocol):
    """A protocol state machine: no IO, no clock, and no randomness except what it was given."""

    def step(self, event: Event, now_ns: int, /) -> Sequence[Effect]:
        """Process one event; returns the effects to carry out, in order."""
        ...
