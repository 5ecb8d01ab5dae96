"""One transactional id: its producer, the state of its transaction, and the steps from one state to the next.

What lives here: the state and every step that it allows, as values.  What may not: who asks and may ask
(`machine`, `ending`), records (`records`), and writing markers into partitions.

    Empty -> Ongoing -> PrepareCommit -> CompleteCommit -> Ongoing ...
                     -> PrepareAbort  -> CompleteAbort  -> Ongoing ...

A producer is known by an id and an epoch; who comes with an older epoch is fenced (KIP-98).  From
transaction.version 2 on each transaction has an epoch of its own (KIP-890): the epoch grows when it ends.
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
# A client never has the highest epoch, so that it can always be fenced by it.
LAST_CLIENT_EPOCH = MAX_EPOCH - 1
# The time-out of a transaction that an outside coordinator ends (KIP-939).
NO_TIMEOUT_MS = 2**31 - 1

# transaction.version: 1 lets records have tagged fields, 2 gives each transaction an epoch.
TRANSACTION_VERSION = "transaction.version"
FLEXIBLE_RECORDS_LEVEL = 1
EPOCH_BUMP_LEVEL = 2


class State(IntEnum):
    """By the numbers of the records.  The last two are never written: such ids are gone, or become others."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def told(self) -> str:
        """As DescribeTransactions says it: PrepareCommit."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        """Its end is decided, and not yet told to all partitions."""
        return self is State.PREPARE_COMMIT or self is State.PREPARE_ABORT

    @property
    def is_at_rest(self) -> bool:
        """No transaction is open: a new one may begin, and an unused id may be forgotten."""
        return self in _AT_REST


_AT_REST = frozenset((State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT))
STATES_BY_NAME = {state.told: state for state in State}


def fenced() -> KafkaError:
    return KafkaError(ErrorCode.PRODUCER_FENCED)


@dataclass(frozen=True, slots=True)
class Transaction:
    """The state of a transactional id.  Each step gives another one."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State
    partitions: frozenset[TopicPartition]
    # When the transaction's first partition was added; NO_TIME if there was none yet.
    start_ms: int
    updated_ms: int
    # The level of transaction.version that its client speaks: 0, or 2.
    client_version: int = 0
    # The id before the last step, and the one that follows when the epochs of this one are used up.
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    # The epoch before the last step: it tells a request that is sent again.  It is not in the records.
    last_producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_exhausted(self) -> bool:
        """There is no further epoch for a client."""
        return is_exhausted(self.producer_epoch)

    @property
    def bumps_epochs(self) -> bool:
        return self.client_version >= EPOCH_BUMP_LEVEL

    # A producer begins

    def increment_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transaction:
        """The next epoch, for a new producer or for one that names the epoch it had (KIP-360)."""
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
                # It asks again because it did not hear of the first answer.
                epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
            else:
                raise fenced()
        return self._emptied(self.producer_id, epoch, last_epoch, timeout_ms, now_ms)

    def rotate(self, producer_id: int, timeout_ms: int, now_ms: int, *, keep_epoch: bool) -> Transaction:
        """A new id because the epochs of the old one are used up."""
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

    # A transaction goes on

    def add(self, partitions: frozenset[TopicPartition], client_version: int, now_ms: int) -> Transaction:
        """These partitions are part of it; the first ones begin it."""
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
        """Under the next epoch, which no client has: its producer is shut out before it is aborted."""
        if self.producer_epoch >= MAX_EPOCH:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "Cannot fence producer with epoch equal to Short.MaxValue since this would overflow",
            )
        return replace(self, producer_epoch=self.producer_epoch + 1, last_producer_epoch=NO_PRODUCER_EPOCH)

    def prepare(
        self, *, commit: bool, client_version: int, next_producer_id: int = NO_PRODUCER_ID, now_ms: int
    ) -> Transaction:
        """Its end is decided.  One that had no partitions begins and ends here."""
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
        """All partitions have heard of its end."""
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

    # Time passes

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
    """Of an id that nobody has used before; its first epoch comes with `increment_epoch`."""
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
