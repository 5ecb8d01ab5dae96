"""The transaction coordinator of one `__transaction_state` partition: a record machine.

Contains the transactional ids of the partition and the decisions about them.  Writing markers to partitions
belongs in the broker's marker sender, the record format in `records`.

The durable state results from `apply` only.  A reply with a `Prepared` makes the driver write the markers;
`complete` follows when they are written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.columnar import Columns
from barnabas.coordinator.decision import NOTHING, Context, Decision, ProducerStamp
from barnabas.coordinator.entry import TRANSACTION, Entry, Unknown, decode
from barnabas.coordinator.events import EventKind, Events
from barnabas.coordinator.timers import Timers
from barnabas.coordinator.txn.ending import NEEDS_PRODUCER_ID, EndRequest, NeedsProducerId, abort, end
from barnabas.coordinator.txn.records import entry_of, tombstone_of, transaction_of
from barnabas.coordinator.txn.transaction import (
    NO_PRODUCER_EPOCH,
    TRANSACTION_VERSION,
    State,
    Transaction,
    fenced,
    is_exhausted,
    new_transaction,
)
from barnabas.metadata.delta import Delta
from barnabas.protocol.records.transaction_log import TransactionLogKey, TransactionLogValue
from barnabas.storage.log.names import TopicPartition

logger = logging.getLogger(__name__)

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Initialised:
    """The producer of a transactional id is initialized."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A transaction whose outcome is decided: its markers must be written, then it is completed."""

    transaction: Transaction

    @property
    def producer(self) -> tuple[int, int]:
        """The producer id and epoch after the transaction."""
        following = self.transaction.complete(0)
        return following.producer_id, following.producer_epoch


@dataclass(frozen=True, slots=True)
class Ended:
    """The reply to a retry that already succeeded: the current producer id and epoch."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class InitRequest:
    """InitProducerId; `expected` are the id and epoch of a producer that recovers from an error (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    expected: tuple[int, int] | None = None


class TransactionMachine:
    """All transactional ids of one partition."""

    def __init__(
        self, on_loaded: Callable[[TransactionMachine], None], on_dropped: Callable[[], None]
    ) -> None:
        self.timers = Timers()
        self.events = Events()
        self.transactions: dict[str, Transaction] = {}
        # The ongoing and prepared transactions, in start order.
        self._open: dict[str, None] = {}
        self._on_loaded = on_loaded
        self._on_dropped = on_dropped

    # Records

    def apply(self, entry: Entry, stamp: ProducerStamp | None) -> None:
        key, value = entry.key, entry.value
        assert isinstance(key, TransactionLogKey), "the transaction log has no other keys"
        if value is None:
            self.transactions.pop(key.transactional_id, None)
            self._open.pop(key.transactional_id, None)
            return
        assert isinstance(value, TransactionLogValue)
        self._put(transaction_of(key.transactional_id, value))

    def _put(self, transaction: Transaction) -> None:
        transactional_id = transaction.transactional_id
        self.transactions[transactional_id] = transaction
        if transaction.state.is_at_rest:
            self._open.pop(transactional_id, None)
        else:
            self._open[transactional_id] = None

    def load(self, columns: Columns, stamp: ProducerStamp | None) -> None:
        for row in range(len(columns)):
            entry = decode(columns.key(row), columns.value(row), TRANSACTION)
            if isinstance(entry, Unknown):
                reason = entry.reason
            else:
                try:
                    self.apply(entry, stamp)
                    continue
                except ValueError as error:
                    reason = str(error)
            logger.warning("a transaction record at offset %d is skipped: %s", columns.offsets[row], reason)

    def marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """The transaction log itself is never transactional."""

    def loaded(self, context: Context) -> None:
        self._on_loaded(self)

    def metadata_changed(self, delta: Delta, context: Context) -> Decision[None]:
        return NOTHING

    def dropped(self, error: KafkaError) -> None:
        self._on_dropped()

    # Queries

    def get(self, transactional_id: str) -> Transaction:
        """Returns an existing transaction."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    @property
    def open_count(self) -> int:
        """The number of ongoing and prepared transactions."""
        return len(self._open)

    def prepared(self) -> list[Prepared]:
        """Transactions whose markers are not all written: a restarted coordinator continues with them."""
        open_transactions = (self.transactions[transactional_id] for transactional_id in self._open)
        return [Prepared(transaction) for transaction in open_transactions if transaction.state.is_prepared]

    def timed_out(self, now_ms: int) -> list[str]:
        """The ids of transactions that are open for longer than their timeout."""
        return [
            transactional_id
            for transactional_id in self._open
            if self.transactions[transactional_id].is_timed_out(now_ms)
        ]

    def expired(self, transactional_ids: Iterable[str], now_ms: int, expiration_ms: int) -> list[str]:
        """The ids among them that have not been used for this long."""
        transaction = self.transactions
        return [
            transactional_id
            for transactional_id in transactional_ids
            if transactional_id in transaction
            and transaction[transactional_id].is_expired(now_ms, expiration_ms)
        ]

    # InitProducerId

    def initialise(
        self, context: Context, request: InitRequest, new_producer_id: int | None
    ) -> Decision[Initialised | Prepared | NeedsProducerId]:
        """Bump the epoch; an open transaction of the previous producer is aborted first."""
        transaction = self.transactions.get(request.transactional_id)
        if transaction is None:
            if new_producer_id is None:
                return Decision((), NEEDS_PRODUCER_ID)
            transaction = new_transaction(
                request.transactional_id, new_producer_id, request.timeout_ms, context.now_ms
            )
        expected = request.expected
        if expected is not None and not _may_reinitialise(transaction, *expected):
            raise fenced()
        if transaction.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if transaction.state is State.ONGOING:
            reason = (
                "a new producer was initialized" if expected is None else "its producer was reinitialized"
            )
            aborted = abort(transaction, _level(context), context.now_ms)
            return self._write(
                context,
                aborted,
                Prepared(aborted),
                EventKind.PRODUCER_FENCED,
                reason=reason,
            )
        expected_epoch = None if expected is None else expected[1]
        if transaction.is_exhausted and expected_epoch in (None, transaction.producer_epoch):
            if new_producer_id is None:
                return Decision((), NEEDS_PRODUCER_ID)
            updated = transaction.rotate(
                new_producer_id, request.timeout_ms, context.now_ms, keep_epoch=expected is not None
            )
        else:
            updated = transaction.increment_epoch(request.timeout_ms, expected_epoch, context.now_ms)
        reply = Initialised(updated.producer_id, updated.producer_epoch)
        return self._write(context, updated, reply, EventKind.PRODUCER_STARTED)

    # AddPartitionsToTxn

    def add_partitions(
        self,
        context: Context,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        client_version: int,
    ) -> Decision[None]:
        """Add these partitions, which will get the transaction's marker."""
        transaction = self.get(transactional_id)
        if transaction.producer_id != producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if transaction.producer_epoch != producer_epoch:
            raise fenced()
        if transaction.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if transaction.state is State.ONGOING and partitions <= transaction.partitions:
            return NOTHING
        begins = transaction.state.is_at_rest
        kind = EventKind.TRANSACTION_STARTED if begins else EventKind.PARTITIONS_ADDED
        updated = transaction.add(partitions, client_version, context.now_ms)
        return self._write(context, updated, None, kind, count=len(updated.partitions))

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """Returns which partitions are part of the transaction, before they accept its records (KIP-890)."""
        transaction = self.get(transactional_id)
        if transaction.producer_id != producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if transaction.producer_epoch != producer_epoch:
            raise fenced()
        if transaction.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return {
            partition: ErrorCode.NONE
            if partition in transaction.partitions
            else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    # End of a transaction

    def end(
        self, context: Context, transactional_id: str, request: EndRequest, new_producer_id: int | None
    ) -> Decision[Prepared | Ended | NeedsProducerId]:
        """Commit or abort, as requested by the producer."""
        transaction = self.get(transactional_id)
        ended = end(transaction, request, new_producer_id, context.now_ms)
        if ended is None:
            return Decision((), Ended(transaction.producer_id, transaction.producer_epoch))
        if isinstance(ended, NeedsProducerId):
            return Decision((), ended)
        commits = ended.state is State.PREPARE_COMMIT
        kind = EventKind.TRANSACTION_COMMITTING if commits else EventKind.TRANSACTION_ABORTING
        return self._write(context, ended, Prepared(ended), kind)

    def abort_timed_out(
        self, context: Context, transactional_id: str, *, is_early: bool = False
    ) -> Decision[Prepared | None]:
        """Abort the transaction, unless it has ended in the meantime; `is_early`: before its time is over."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None or not (
            transaction.is_timed_out(context.now_ms) or (is_early and transaction.state is State.ONGOING)
        ):
            return Decision((), None)
        aborted = abort(transaction, _level(context), context.now_ms)
        return self._write(
            context,
            aborted,
            Prepared(aborted),
            EventKind.TRANSACTION_TIMED_OUT,
            reason=f"it was open for longer than {transaction.timeout_ms} ms",
        )

    def complete(self, context: Context, prepared: Transaction) -> Decision[None]:
        """Called when all markers of this transaction are written; it may already be completed."""
        transaction = self.transactions.get(prepared.transactional_id)
        if transaction is None or not _is_same(transaction, prepared):
            return NOTHING
        committed = transaction.state is State.PREPARE_COMMIT
        kind = EventKind.TRANSACTION_COMMITTED if committed else EventKind.TRANSACTION_ABORTED
        return self._write(context, transaction.complete(context.now_ms), None, kind)

    def expire(self, context: Context, transactional_ids: Sequence[str]) -> Decision[None]:
        """Remove ids that have not been used for transactional.id.expiration.ms."""
        expiration_ms: int = context.settings["transactional.id.expiration.ms"]
        expired_ids = self.expired(transactional_ids, context.now_ms, expiration_ms)

        def accepted() -> None:
            for transactional_id in expired_ids:
                self.events.note(transactional_id, context.now_ms, EventKind.TRANSACTIONAL_ID_EXPIRED)

        return Decision(
            [tombstone_of(transactional_id) for transactional_id in expired_ids],
            None,
            accepted=accepted,
            atomic=False,
        )

    def _write(
        self,
        context: Context,
        updated: Transaction,
        reply: R,
        kind: EventKind,
        *,
        reason: str = "",
        count: int = 1,
    ) -> Decision[R]:
        def accepted() -> None:
            # Includes what the records omit: the previous epoch and producer id.
            self.transactions[updated.transactional_id] = updated
            self.events.note(
                updated.transactional_id,
                context.now_ms,
                kind,
                who=_who(updated),
                reason=reason,
                generation=updated.producer_epoch,
                count=count,
            )

        return Decision([entry_of(updated, _level(context))], reply, accepted)


def _may_reinitialise(transaction: Transaction, producer_id: int, producer_epoch: int) -> bool:
    """Whether a producer with this id and epoch may get a new epoch; the epoch is checked later."""
    return (
        transaction.producer_epoch == NO_PRODUCER_EPOCH
        or producer_id == transaction.producer_id
        # Its producer id was exhausted, and it missed the response with the new one.
        or (producer_id == transaction.previous_producer_id and is_exhausted(producer_epoch))
    )


def _is_same(transaction: Transaction, prepared: Transaction) -> bool:
    """Compares only recorded fields: a reloaded coordinator does not know the others."""
    return (
        transaction.state is prepared.state
        and transaction.producer_id == prepared.producer_id
        and transaction.producer_epoch == prepared.producer_epoch
        and transaction.start_ms == prepared.start_ms
        and transaction.updated_ms == prepared.updated_ms
    )


def _level(context: Context) -> int:
    """The finalized transaction.version."""
    level: int = context.image.features.get(TRANSACTION_VERSION, 0)
    return level


def _who(transaction: Transaction) -> str:
    return f"{transaction.producer_id}/{transaction.producer_epoch}"
