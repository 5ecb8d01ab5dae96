"""The words between a protocol machine and the world: events go in, effects come out.

What lives here: plain frozen data, and the shape of a core.  What may not: how an effect is carried out
(that is `runtime.executor`) and anything that knows what a message, an entry or a timer means.

The effects of a core are one queue.  What leaves the core (Send, Reply, Apply) waits for every Persist that
was asked for before it; a core steps on meanwhile.  Timers are the core's own and are set at once: a
time-out that was pushed back must not fire only because the disk is slow.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

# ---------------------------------------------------------------------------------------------- effects


@dataclass(frozen=True, slots=True)
class Send:
    """Pass a message to another node.  It may be lost, late, repeated, or overtaken by a later one."""

    to: int
    message: object


@dataclass(frozen=True, slots=True)
class Persist:
    """Write an entry; whatever the core asks for after it happens only once the entry is on stable storage.

    With a token the core hears `Persisted(token)` at that moment, before its later effects leave.
    """

    entry: object
    token: Hashable | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request.  `to` is the handle that came with `Requested`."""

    to: Hashable
    message: object


@dataclass(frozen=True, slots=True)
class Apply:
    """Hand something that is now decided (a committed entry, a new state) to whoever acts on it."""

    decided: object


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Step with `Fired(key)` at this monotonic time; an earlier setting of the same key is forgotten."""

    key: Hashable
    deadline_ns: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Forget a timer; fine if there is none."""

    key: Hashable


Effect: TypeAlias = Send | Persist | Reply | Apply | SetTimer | CancelTimer

# ----------------------------------------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Received:
    """A message of another node has arrived."""

    sender: int
    message: object


@dataclass(frozen=True, slots=True)
class Requested:
    """Someone asks, and waits for a `Reply` to this handle."""

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
    """A protocol machine: no IO, no clock of its own, no chance but what it was given."""

    def step(self, event: Event, now_ns: int, /) -> Sequence[Effect]:
        """Take one event; say what is to be done, in order."""
        ...
