"""A cluster without faults, in memory: every history of its clients is clean."""

from __future__ import annotations

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
    Sent,
    TransactionBegun,
    TransactionEnded,
    TransactionOutcome,
)

MARKER = None


@dataclass
class ReferenceCluster:
    """Logs of values and markers; records the history of those who use them."""

    partitions: tuple[Partition, ...] = (("orders", 0), ("orders", 1))
    events: list[Event] = field(default_factory=list)
    logs: dict[Partition, list[str | None]] = field(default_factory=dict)
    transaction_of: dict[str, str] = field(default_factory=dict)
    written: dict[str, set[Partition]] = field(default_factory=dict)
    committed: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    positions: dict[tuple[str, Partition], int] = field(default_factory=dict)
    sent: int = 0

    def __post_init__(self) -> None:
        self.logs = {partition: [] for partition in self.partitions}

    def send(
        self,
        producer: str,
        partition: Partition,
        transaction: str | None = None,
        *,
        acknowledged: bool = True,
        source: str | None = None,
    ) -> str:
        value = f"v{self.sent}"
        self.sent += 1
        self.events.append(Sent(value, producer, partition, transaction, source=source))
        self.logs[partition].append(value)
        if transaction is not None:
            self.transaction_of[value] = transaction
            self.written[transaction].add(partition)
        if acknowledged:
            self.events.append(Acknowledged(value, len(self.logs[partition]) - 1))
        return value

    def begin(self, producer: str, transaction: str) -> None:
        self.events.append(TransactionBegun(transaction, producer))
        self.written[transaction] = set()

    def end(self, transaction: str, *, commit: bool, known: bool = True) -> None:
        if commit:
            self.events.append(CommitRequested(transaction))
            self.committed.add(transaction)
        self.ended.add(transaction)
        for partition in self.written[transaction]:
            self.logs[partition].append(MARKER)
        outcome = TransactionOutcome.COMMITTED if commit else TransactionOutcome.ABORTED
        self.events.append(TransactionEnded(transaction, outcome if known else TransactionOutcome.UNKNOWN))

    def assign(self, consumer: str) -> None:
        """From where it was."""
        positions = {partition: self.positions.get((consumer, partition), 0) for partition in self.partitions}
        self.events.append(Assigned(consumer, positions))

    def poll(
        self,
        consumer: str,
        isolation: Isolation,
        most: int = 100,
        group: str | None = None,
        transaction: str | None = None,
    ) -> None:
        records = []
        for partition in self.partitions:
            start = self.positions.get((consumer, partition), 0)
            visible = [each for each in self.visible(partition, isolation) if each[0] >= start][:most]
            records += [(partition, offset, value) for offset, value in visible]
            if visible:
                self.positions[consumer, partition] = visible[-1][0] + 1
        self.events.append(Polled(consumer, isolation, tuple(records), group, transaction))

    def visible(self, partition: Partition, isolation: Isolation) -> list[tuple[int, str]]:
        visible = []
        for offset, value in enumerate(self.logs[partition]):
            if value is MARKER:
                continue
            transaction = self.transaction_of.get(value)
            if isolation is Isolation.COMMITTED and transaction is not None:
                if transaction not in self.ended:
                    # The last stable offset.
                    break
                if transaction not in self.committed:
                    continue
            visible.append((offset, value))
        return visible

    def finish(self, *groups: str) -> list[Event]:
        """Ends open transactions, reads everything; returns the history."""
        for transaction in self.written:
            if transaction not in self.ended:
                self.end(transaction, commit=False)
        for partition in self.partitions:
            for isolation in Isolation:
                self.events.append(FinalRead(partition, isolation, tuple(self.visible(partition, isolation))))
            for group in groups:
                if position := self.positions.get((group, partition)):
                    self.events.append(FinalPosition(group, partition, position))
        return self.events
