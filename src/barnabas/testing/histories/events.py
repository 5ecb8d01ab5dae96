"""The events of a history.

The order of events matters: an event is recorded before the call that it requests, and after the call that it
completes.  An event that precedes another in the history then happened before it, or at the same time.

Every value is sent once, and is unique in the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

# Topic and number.
Partition = tuple[str, int]
# Where it was read, and what.
ReadRecord = tuple[Partition, int, str]


def partition_name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


class Isolation(StrEnum):
    """The isolation level of a consumer."""

    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


class TransactionOutcome(StrEnum):
    """How a transaction ended, as far as its producer knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Sent:
    """A producer is about to send a value.

    `producer` names one instance of a producer: one that is created again has another name.  `source` is the
    input value from which a transactional application derived this one, if any.
    """

    value: str
    producer: str
    partition: Partition
    transaction: str | None = None
    is_idempotent: bool = True
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The cluster has acknowledged a value with acks=all.

    `offset` is None if the producer does not know it, for example after DUPLICATE_SEQUENCE_NUMBER.
    """

    value: str
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class SendFailed:
    """A producer reported an error.

    `is_definite` only if the value cannot be in the log.  After a time-out or a lost connection it can.
    """

    value: str
    is_definite: bool = False


@dataclass(frozen=True, slots=True)
class SentAgain:
    """A producer has sent a value again as a new one: its copies have different producer ids or epochs.

    librdkafka does so when it bumps its epoch while the outcome of a request is unknown.
    """

    value: str


@dataclass(frozen=True, slots=True)
class TransactionBegun:
    """A producer has begun a transaction; `transaction` is unique in the history."""

    transaction: str
    producer: str


@dataclass(frozen=True, slots=True)
class CommitRequested:
    """A producer is about to commit a transaction."""

    transaction: str


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """The call that ends a transaction has returned."""

    transaction: str
    outcome: TransactionOutcome


@dataclass(frozen=True, slots=True)
class Assigned:
    """A consumer has got these partitions in place of its former ones.

    The values are the positions at which it starts; None if unknown.  Only within an assignment are polls
    expected to continue where the previous poll ended.
    """

    consumer: str
    positions: Mapping[Partition, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Polled:
    """A poll has returned records.

    `transaction` is the transaction whose input they are, if any.
    """

    consumer: str
    isolation: Isolation
    records: tuple[ReadRecord, ...]
    group: str | None = None
    transaction: str | None = None


@dataclass(frozen=True, slots=True)
class FinalRead:
    """All records of a partition, read after all faults were healed and all producers had stopped.

    Empty below `start`, the log start offset.
    """

    partition: Partition
    isolation: Isolation
    records: tuple[tuple[int, str], ...]
    start: int = 0


@dataclass(frozen=True, slots=True)
class FinalPosition:
    """The offset that a group has committed in the end.

    `is_transactional` if offsets were committed within the transactions of its members only.
    """

    group: str
    partition: Partition
    offset: int
    is_transactional: bool = False


Event = (
    Sent
    | Acknowledged
    | SendFailed
    | SentAgain
    | TransactionBegun
    | CommitRequested
    | TransactionEnded
    | Assigned
    | Polled
    | FinalRead
    | FinalPosition
)
