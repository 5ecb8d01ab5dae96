"""The input and output of a coordinator decision: context, entries and reply (plain data)."""

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
    """What a decision may use besides the state of its machine."""

    # Wall-clock time, for timestamps in entries.  Timeouts use the timers.
    now_ms: int
    image: Image
    settings: Settings
    random: Random


class ProducerStamp(NamedTuple):
    """The producer of a transactional batch: its entries take effect with the transaction's marker."""

    producer_id: int
    producer_epoch: int


class Marker(NamedTuple):
    """A transaction marker, as its coordinator sends it to the partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool


class Decision(NamedTuple, Generic[R]):
    """Entries to append, and the reply to send once they are committed.

    The entries form one atomic batch; only if `atomic` is False may they span several.  A reply that is a
    Promise waits for other members; it is sent once the entries are committed and the promise is completed.
    A reply without entries waits for the commit of everything applied before it.

    A decision itself changes nothing.  Entries change durable state when they are applied.  Soft state
    (joining members, waiting requests, timers) is changed by `accepted` once the entries are appended and
    applied, and by `committed` once they are replicated, just before the reply.  So a decision that the log
    rejects needs no rollback.  `refused` is called instead, with the error that the client gets: either the
    append failed and `accepted` was not called, or the replication timed out.
    """

    entries: Sequence[Entry]
    reply: R | Promise[R]
    accepted: Callable[[], None] | None = None
    refused: Callable[[KafkaError], None] | None = None
    committed: Callable[[], None] | None = None
    # If set, the batch belongs to this producer's transaction (TxnOffsetCommit).
    producer: ProducerStamp | None = None
    # If set, a transaction marker is written instead of entries.
    marker: Marker | None = None
    atomic: bool = True


NOTHING: Decision[None] = Decision((), None)


class Changes:
    """Collects the entries of one decision, in write order, and its changes of soft state."""

    __slots__ = ("_soft", "entries")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._soft: list[Callable[[], None]] = []

    def write(self, entries: Iterable[Entry]) -> None:
        self.entries.extend(entries)

    def then(self, act: Callable[[], None]) -> None:
        """Run this change of soft state once the entries are written; never if the write fails."""
        self._soft.append(act)

    def decision(
        self,
        reply: R | Promise[R],
        *,
        committed: Callable[[], None] | None = None,
        refused: Callable[[KafkaError], None] | None = None,
    ) -> Decision[R]:
        return Decision(self.entries, reply, self.apply_soft_state, refused, committed)

    def apply_soft_state(self) -> None:
        """Called when the entries are written, or if there are none."""
        for act in self._soft:
            act()
