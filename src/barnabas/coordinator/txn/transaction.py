"""One transactional id: its producer, the state of its transaction, and the state transitions.

Contains the state as an immutable value, and every transition.  Validation of requests belongs in `machine`
and `ending`, the record format in `records`.

    Empty -> Ongoing -> PrepareCommit -> CompleteCommit -> Ongoing ...
                     -> PrepareAbort  -> CompleteAbort  -> Ongoing ...

A producer has an id and an epoch; a producer with an older epoch is fenced (KIP-98).  From
transaction.version 2 on each transaction has its own epoch (KIP-890): the epoch is bumped when it ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.storage.log.names import TopicPartition

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIME = -1
MAX_EPOCH = 2**15 - 1
# Clients never get the highest epoch, so that they can always be fenced with it.
LAST_CLIENT_EPOCH = MAX_EPOCH - 1
# The timeout of a transaction that an external coordinator ends (KIP-939).
NO_TIMEOUT_MS = 2**31 - 1

# transaction.version: 1 adds tagged fields to records, 2 adds an epoch per transaction.
TRANSACTION_VERSION = "transaction.version"
FLEXIBLE_RECORDS_LEVEL = 1
EPOCH_BUMP_LEVEL = 2


class State(IntEnum):
    """By their numbers in the records.  The last two are transient and never written."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def display_name(self) -> str:
        """The name in DescribeTransactions, such as PrepareCommit."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        """Its outcome is decided, but not all markers are written."""
        return self is State.PREPARE_COMMIT or self is State.PREPARE_ABORT

    @property
    def is_at_rest(self) -> bool:
        """No transaction is open: a new one may start, and an unused id may expire."""
        return self in _AT_REST


_AT_REST = frozenset((State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT))
STATES_BY_NAME = {state.display_name: state for state in State}


def fenced() -> KafkaError:
    return KafkaError(ErrorCode.PRODUCER_FENCED)


@dataclass(frozen=True, slots=True)
class Transaction:
    """The state of a transactional id.  Transitions return a new instance."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State
    partitions: frozenset[TopicPartition]
    # When the first partition of the transaction was added; NO_TIME if there is none.
    start_ms: int
    updated_ms: int
    # The transaction.version level of the client: 0 or 2.
    client_version: int = 0
    # The producer id before the last transition, and the next one once the epochs of this one are exhausted.
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    # The epoch before the last transition, to detect retries.  Not recorded.
    last_producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_exhausted(self) -> bool:
        """Whether no epoch is left for a client."""
        return is_exhausted(self.producer_epoch)

    @property
    def bumps_epochs(self) -> bool:
        return self.client_version >= EPOCH_BUMP_LEVEL

    # InitProducerId

    def increment_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transaction:
        """The next epoch, for a new producer or for one that sends its previous epoch (KIP-360)."""
        if self.is_exhausted:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Cannot allocate any more producer epochs for producerId {self.producer_id}",
            )
        epoch, last_epoch = self.producer_epoch + 1, NO_PRODUCER_EPOCH
        if expected_epoch is not None:
            if self.producer_epoch in (NO_PRODUCER_EPOCH, expected_epoch):
                last_epoch = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch:
                # A retry: it missed the first response.
                epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
            else:
                raise fenced()
        return self._emptied(self.producer_id, epoch, last_epoch, timeout_ms, now_ms)

    def rotate(self, producer_id: int, timeout_ms: int, now_ms: int, *, keep_epoch: bool) -> Transaction:
        """Switch to a new producer id because the epochs of the old one are exhausted."""
        last_epoch = self.producer_epoch if keep_epoch else NO_PRODUCER_EPOCH
        return self._emptied(producer_id, 0, last_epoch, timeout_ms, now_ms)

    def _emptied(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        return replace(
            self,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            previous_producer_id=self.producer_id,
            timeout_ms=timeout_ms,
            state=State.EMPTY,
            partitions=frozenset(),
            start_ms=NO_TIME,
            updated_ms=now_ms,
        )

    # Ongoing transactions

    def add(self, partitions: frozenset[TopicPartition], client_version: int, now_ms: int) -> Transaction:
        """Add partitions; the first ones start the transaction."""
        return replace(
            self,
            state=State.ONGOING,
            partitions=self.partitions | partitions,
            start_ms=now_ms if self.state.is_at_rest else self.start_ms,
            updated_ms=now_ms,
            client_version=client_version,
            previous_producer_id=self.producer_id,
        )

    def fence(self) -> Transaction:
        """Bump to an epoch that no client has, so that the producer is fenced before the abort."""
        if self.producer_epoch >= MAX_EPOCH:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "Cannot fence producer with epoch equal to Short.MaxValue since this would overflow",
            )
        return replace(self, producer_epoch=self.producer_epoch + 1, last_producer_epoch=NO_PRODUCER_EPOCH)

    def prepare(
        self, *, commit: bool, client_version: int, next_producer_id: int = NO_PRODUCER_ID, now_ms: int
    ) -> Transaction:
        """Decide the outcome.  A transaction without partitions starts and ends here."""
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if client_version >= EPOCH_BUMP_LEVEL:
            epoch, last_epoch = epoch + 1, epoch
        return replace(
            self,
            state=State.PREPARE_COMMIT if commit else State.PREPARE_ABORT,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=next_producer_id,
            previous_producer_id=self.producer_id,
            start_ms=now_ms if self.state.is_at_rest else self.start_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def complete(self, now_ms: int) -> Transaction:
        """Called when all markers are written."""
        producer_id, epoch = self.producer_id, self.producer_epoch
        if self.bumps_epochs and self.next_producer_id != NO_PRODUCER_ID:
            producer_id, epoch = self.next_producer_id, 0
        return replace(
            self,
            state=State.COMPLETE_COMMIT if self.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT,
            producer_id=producer_id,
            producer_epoch=epoch,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated_ms=now_ms,
        )

    # Timeouts

    def is_timed_out(self, now_ms: int) -> bool:
        return (
            self.state is State.ONGOING
            and self.timeout_ms != NO_TIMEOUT_MS
            and self.start_ms + self.timeout_ms < now_ms
        )

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        return self.state.is_at_rest and self.updated_ms <= now_ms - expiration_ms


def is_exhausted(epoch: int) -> bool:
    return epoch >= LAST_CLIENT_EPOCH


def new_transaction(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """A new id; `increment_epoch` sets its first epoch."""
    return Transaction(
        transactional_id,
        producer_id,
        NO_PRODUCER_EPOCH,
        timeout_ms,
        State.EMPTY,
        frozenset(),
        NO_TIME,
        now_ms,
    )
