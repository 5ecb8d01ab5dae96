"""What a coordinator's decision is made of: the circumstances, the entries to write and the reply.

What lives here: plain data, and how one decision gathers it.  What may not: any decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from barnabas.base.errors import KafkaError
from barnabas.config.settings import Settings
from barnabas.coordinator.entry import Entry
from barnabas.metadata.image import Image
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.random import Random

R = TypeVar("R")


class Context(NamedTuple):
    """What a decision may look at beside the state of its machine."""

    # Wall time, which stamps what is written.  Time-outs are the timers' business.
    now_ms: int
    image: Image
    settings: Settings
    random: Random


class ProducerStamp(NamedTuple):
    """Whose transaction a batch belongs to: its entries count when the transaction's marker has come."""

    producer_id: int
    producer_epoch: int


class Marker(NamedTuple):
    """The end of a transaction, as its coordinator tells it to the partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool


class Decision(NamedTuple, Generic[R]):
    """Entries to append, and the reply once they are committed.

    The entries go into one batch, all or none; only where `atomic` is False may they be spread over several.
    A reply that is a Promise is one that waits for other members; it is passed on when both have come: the
    commit and the value.  A reply without entries waits for all that was applied before it.

    Deciding changes nothing: entries change durable state when they are applied, and soft state (members that
    are joining, requests that wait, timers) is changed by `accepted` when the log has taken the entries and
    they are applied, and by `committed` when all replicas have them, just before the reply.  A decision that
    the log refuses has therefore nothing to undo.  `refused` is what soft state does instead, and is given
    the error that the caller gets: the log did not take the entries, and `accepted` was not called; or it
    did, and the replicas were too slow.
    """

    entries: Sequence[Entry]
    reply: R | Promise[R]
    accepted: Callable[[], None] | None = None
    refused: Callable[[KafkaError], None] | None = None
    committed: Callable[[], None] | None = None
    # Set: the batch is part of this producer's transaction (TxnOffsetCommit).
    producer: ProducerStamp | None = None
    # Set: instead of entries the end of a transaction is written.
    marker: Marker | None = None
    atomic: bool = True


NOTHING: Decision[None] = Decision((), None)


class Changes:
    """What one decision gathers on its way: entries in the order of writing, and changes of soft state."""

    __slots__ = ("_soft", "entries")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._soft: list[Callable[[], None]] = []

    def write(self, entries: Iterable[Entry]) -> None:
        self.entries.extend(entries)

    def then(self, act: Callable[[], None]) -> None:
        """Change soft state in this way when the entries are written, and not at all if they are not."""
        self._soft.append(act)

    def decision(
        self,
        reply: R | Promise[R],
        *,
        committed: Callable[[], None] | None = None,
        refused: Callable[[KafkaError], None] | None = None,
    ) -> Decision[R]:
        return Decision(self.entries, reply, self.take, refused, committed)

    def take(self) -> None:
        """The entries are written, or there are none: change soft state."""
        for act in self._soft:
            act()
