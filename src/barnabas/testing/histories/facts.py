"""What a history says, indexed for the checks."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from barnabas.testing.histories.events import (
    Acknowledged,
    Assigned,
    CommitRequested,
    Event,
    FinalPosition,
    FinalRead,
    Isolation,
    Partition,
    Polled,
    SendFailed,
    Sent,
    SentAgain,
    TransactionBegun,
    TransactionEnded,
    TransactionOutcome,
)

# The index of something that never happened.
NEVER = -1
Place = tuple[Partition, int]


class HistoryError(ValueError):
    """The history contradicts itself: it was recorded wrongly."""


@dataclass(slots=True)
class Send:
    """A value on its way.  Times are indexes of events."""

    sent: Sent
    sent_at: int
    acknowledged_at: int = NEVER
    offset: int | None = None
    has_failed: bool = False
    is_sent_again: bool = False

    @property
    def is_acknowledged(self) -> bool:
        return self.acknowledged_at != NEVER


@dataclass(slots=True)
class Transaction:
    """The course of a transaction."""

    id: str
    producer: str
    commit_requested_at: int = NEVER
    outcome: TransactionOutcome = TransactionOutcome.UNKNOWN
    values: list[str] = field(default_factory=list)

    @property
    def is_committed(self) -> bool:
        return self.outcome is TransactionOutcome.COMMITTED

    @property
    def cannot_be_committed(self) -> bool:
        return self.outcome is TransactionOutcome.ABORTED or self.commit_requested_at == NEVER


@dataclass(slots=True)
class View:
    """The records of a partition as consumers of one isolation level see it in the end.

    Without a final read it is what any consumer has read, and `is_complete` is false.
    """

    records: list[tuple[int, str]]
    start: int = 0
    is_complete: bool = True
    values: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.records.sort()
        self.values = {value for _, value in self.records}

    @property
    def last_offset(self) -> int:
        return self.records[-1][0] if self.records else NEVER

    def between(self, first: int, end: int) -> Sequence[tuple[int, str]]:
        """The records from `first` on, before `end`."""
        return self.records[bisect_left(self.records, (first,)) : bisect_left(self.records, (end,))]


class Facts:
    """A history, indexed."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.sends: dict[str, Send] = {}
        self.transactions: dict[str, Transaction] = {}
        # Polls and assignments of each consumer, with their indexes.
        self.consumers: dict[str, list[tuple[int, Polled | Assigned]]] = defaultdict(list)
        self.final_reads: dict[tuple[Partition, Isolation], FinalRead] = {}
        self.final_positions: list[FinalPosition] = []
        # Every value that was seen at an offset, by an acknowledgement or a read.
        self.places: dict[Place, list[str]] = {}
        self.places_of: dict[str, list[Place]] = {}
        self._views: dict[tuple[Partition, Isolation], View] = {}
        for index, event in enumerate(events):
            self._add(index, event)

    def polls(self) -> Iterator[tuple[int, Polled]]:
        for seen in self.consumers.values():
            for index, event in seen:
                if isinstance(event, Polled):
                    yield index, event

    def partitions(self) -> list[Partition]:
        return sorted({partition for partition, _ in self.places} | {key[0] for key in self.final_reads})

    def view(self, partition: Partition, isolation: Isolation) -> View:
        key = (partition, isolation)
        if key not in self._views:
            self._views[key] = self._view(partition, isolation)
        return self._views[key]

    def transaction_of(self, value: str) -> Transaction | None:
        send = self.sends.get(value)
        if send is None or send.sent.transaction is None:
            return None
        return self.transactions[send.sent.transaction]

    def _view(self, partition: Partition, isolation: Isolation) -> View:
        final = self.final_reads.get((partition, isolation))
        if final is not None:
            return View(list(final.records), final.start)
        polled = {
            (offset, value)
            for _, poll in self.polls()
            if poll.isolation is isolation
            for where, offset, value in poll.records
            if where == partition
        }
        return View(list(polled), is_complete=False)

    def _add(self, index: int, event: Event) -> None:
        match event:
            case Sent():
                self._add_sent(index, event)
            case Acknowledged(value, offset):
                send = self._send(value)
                send.acknowledged_at = index
                send.offset = offset
                if offset is not None:
                    self._add_place(send.sent.partition, offset, value)
            case SendFailed(value, is_definite):
                self._send(value).has_failed = is_definite
            case SentAgain(value):
                self._send(value).is_sent_again = True
            case TransactionBegun(transaction, producer):
                if transaction in self.transactions:
                    raise HistoryError(f"transaction {transaction} was begun twice")
                self.transactions[transaction] = Transaction(transaction, producer)
            case CommitRequested(transaction):
                self._transaction(transaction).commit_requested_at = index
            case TransactionEnded(transaction, outcome):
                self._transaction(transaction).outcome = outcome
            case Assigned(consumer):
                self.consumers[consumer].append((index, event))
            case Polled(consumer, _, records):
                self.consumers[consumer].append((index, event))
                for partition, offset, value in records:
                    self._add_place(partition, offset, value)
            case FinalRead(partition, isolation, read):
                self.final_reads[partition, isolation] = event
                for offset, value in read:
                    self._add_place(partition, offset, value)
            case FinalPosition():
                self.final_positions.append(event)

    def _add_sent(self, index: int, sent: Sent) -> None:
        if sent.value in self.sends:
            raise HistoryError(f"value {sent.value} was sent twice")
        self.sends[sent.value] = Send(sent, index)
        if sent.transaction is not None:
            self._transaction(sent.transaction).values.append(sent.value)

    def _add_place(self, partition: Partition, offset: int, value: str) -> None:
        place = (partition, offset)
        values = self.places.setdefault(place, [])
        if value not in values:
            values.append(value)
            self.places_of.setdefault(value, []).append(place)

    def _send(self, value: str) -> Send:
        if value not in self.sends:
            raise HistoryError(f"value {value} was never sent")
        return self.sends[value]

    def _transaction(self, transaction: str) -> Transaction:
        if transaction not in self.transactions:
            raise HistoryError(f"transaction {transaction} was never begun")
        return self.transactions[transaction]
