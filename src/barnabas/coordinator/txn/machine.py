"""The transaction coordinator of one partition of `__transaction_state`: a record machine.

What lives here: the transactional ids of this partition, and what is decided when a producer, a broker or the
time asks.  What may not: IO, clocks, markers' way into partitions (the driver), and how records look.

The durable state is what `apply` made of the log's records.  A reply that holds a `Prepared` tells the driver
to have markers written; `complete` follows when they are.
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
    """The producer of a transactional id may begin."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A transaction's end is decided: its partitions are to be told, then it is to be completed."""

    transaction: Transaction

    @property
    def producer(self) -> tuple[int, int]:
        """The id and epoch with which its producer goes on."""
        following = self.transaction.complete(0)
        return following.producer_id, following.producer_epoch


@dataclass(frozen=True, slots=True)
class Ended:
    """The request had done its work before: the producer's id and epoch from then on."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class InitRequest:
    """A producer begins, or goes on after an error with the id and epoch it had (KIP-360)."""

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
        # Those that are ongoing or prepared, in the order in which they began.
        self._open: dict[str, None] = {}
        self._on_loaded = on_loaded
        self._on_dropped = on_dropped

    # The log's records

    def apply(self, entry: Entry, stamp: ProducerStamp | None) -> None:
        key, value = entry.key, entry.value
        assert isinstance(key, TransactionLogKey), "the log of transactions has no other keys"
        if value is None:
            self.transactions.pop(key.transactional_id, None)
            self._open.pop(key.transactional_id, None)
            return
        assert isinstance(value, TransactionLogValue)
        self._take(transaction_of(key.transactional_id, value))

    def _take(self, transaction: Transaction) -> None:
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
            logger.warning("a record of a transaction at %d is passed over: %s", columns.offsets[row], reason)

    def marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """The log of transactions is never part of one."""

    def loaded(self, context: Context) -> None:
        self._on_loaded(self)

    def metadata_changed(self, delta: Delta, context: Context) -> Decision[None]:
        return NOTHING

    def dropped(self, error: KafkaError) -> None:
        self._on_dropped()

    # Looking

    def get(self, transactional_id: str) -> Transaction:
        """One that exists."""
        found = self.transactions.get(transactional_id)
        if found is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return found

    @property
    def open_count(self) -> int:
        """How many transactions have begun and are not complete."""
        return len(self._open)

    def prepared(self) -> list[Prepared]:
        """Those whose partitions are still to be told: what a coordinator goes on with after a restart."""
        found = (self.transactions[one] for one in self._open)
        return [Prepared(one) for one in found if one.state.is_prepared]

    def timed_out(self, now_ms: int) -> list[str]:
        """The ids of transactions that are open for longer than their producer asked for."""
        return [one for one in self._open if self.transactions[one].is_timed_out(now_ms)]

    def expired(self, transactional_ids: Iterable[str], now_ms: int, expiration_ms: int) -> list[str]:
        """Those among them that nobody has used for so long."""
        known = self.transactions
        return [
            one for one in transactional_ids if one in known and known[one].is_expired(now_ms, expiration_ms)
        ]

    # A producer begins

    def initialise(
        self, context: Context, request: InitRequest, new_producer_id: int | None
    ) -> Decision[Initialised | Prepared | NeedsProducerId]:
        """A new epoch; the transaction that an earlier producer left open is aborted first."""
        known = self.transactions.get(request.transactional_id)
        if known is None:
            if new_producer_id is None:
                return Decision((), NEEDS_PRODUCER_ID)
            known = new_transaction(
                request.transactional_id, new_producer_id, request.timeout_ms, context.now_ms
            )
        expected = request.expected
        if expected is not None and not _may_go_on(known, *expected):
            raise fenced()
        if known.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if known.state is State.ONGOING:
            reason = "another producer has begun" if expected is None else "its producer begins anew"
            aborted = abort(known, _level(context), context.now_ms)
            return self._write(
                context,
                aborted,
                Prepared(aborted),
                EventKind.PRODUCER_FENCED,
                reason=reason,
            )
        expected_epoch = None if expected is None else expected[1]
        if known.is_exhausted and expected_epoch in (None, known.producer_epoch):
            if new_producer_id is None:
                return Decision((), NEEDS_PRODUCER_ID)
            updated = known.rotate(
                new_producer_id, request.timeout_ms, context.now_ms, keep_epoch=expected is not None
            )
        else:
            updated = known.increment_epoch(request.timeout_ms, expected_epoch, context.now_ms)
        reply = Initialised(updated.producer_id, updated.producer_epoch)
        return self._write(context, updated, reply, EventKind.PRODUCER_STARTED)

    # A transaction goes on

    def add_partitions(
        self,
        context: Context,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        client_version: int,
    ) -> Decision[None]:
        """These partitions will hear of the transaction's end."""
        known = self.get(transactional_id)
        if known.producer_id != producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if known.producer_epoch != producer_epoch:
            raise fenced()
        if known.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if known.state is State.ONGOING and partitions <= known.partitions:
            return NOTHING
        begins = known.state.is_at_rest
        kind = EventKind.TRANSACTION_STARTED if begins else EventKind.PARTITIONS_ADDED
        updated = known.add(partitions, client_version, context.now_ms)
        return self._write(context, updated, None, kind, count=len(updated.partitions))

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """Which partitions are part of the transaction, before they take its records (KIP-890)."""
        known = self.get(transactional_id)
        if known.producer_id != producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if known.producer_epoch != producer_epoch:
            raise fenced()
        if known.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return {
            one: ErrorCode.NONE if one in known.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for one in partitions
        }

    # A transaction ends

    def end(
        self, context: Context, transactional_id: str, request: EndRequest, new_producer_id: int | None
    ) -> Decision[Prepared | Ended | NeedsProducerId]:
        """Its producer commits or aborts."""
        known = self.get(transactional_id)
        ended = end(known, request, new_producer_id, context.now_ms)
        if ended is None:
            return Decision((), Ended(known.producer_id, known.producer_epoch))
        if isinstance(ended, NeedsProducerId):
            return Decision((), ended)
        commits = ended.state is State.PREPARE_COMMIT
        kind = EventKind.TRANSACTION_COMMITTING if commits else EventKind.TRANSACTION_ABORTING
        return self._write(context, ended, Prepared(ended), kind)

    def abort_timed_out(self, context: Context, transactional_id: str) -> Decision[Prepared | None]:
        """Abort it unless it has ended meanwhile."""
        known = self.transactions.get(transactional_id)
        if known is None or not known.is_timed_out(context.now_ms):
            return Decision((), None)
        aborted = abort(known, _level(context), context.now_ms)
        return self._write(
            context,
            aborted,
            Prepared(aborted),
            EventKind.TRANSACTION_TIMED_OUT,
            reason=f"it was open for longer than {known.timeout_ms} ms",
        )

    def complete(self, context: Context, prepared: Transaction) -> Decision[None]:
        """All partitions have heard of the end of this transaction, which may be completed meanwhile."""
        known = self.transactions.get(prepared.transactional_id)
        if known is None or not _is_same(known, prepared):
            return NOTHING
        committed = known.state is State.PREPARE_COMMIT
        kind = EventKind.TRANSACTION_COMMITTED if committed else EventKind.TRANSACTION_ABORTED
        return self._write(context, known.complete(context.now_ms), None, kind)

    def expire(self, context: Context, transactional_ids: Sequence[str]) -> Decision[None]:
        """Forget ids that nobody has used for transactional.id.expiration.ms."""
        expiration_ms: int = context.settings["transactional.id.expiration.ms"]
        going = self.expired(transactional_ids, context.now_ms, expiration_ms)

        def forget() -> None:
            for one in going:
                self.events.note(one, context.now_ms, EventKind.TRANSACTIONAL_ID_EXPIRED)

        return Decision([tombstone_of(one) for one in going], None, accepted=forget, atomic=False)

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
            # With what the records leave out: epoch and id before this step.
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


def _may_go_on(known: Transaction, producer_id: int, producer_epoch: int) -> bool:
    """Whether one that names this id and epoch may get another epoch; which epoch is looked at later."""
    return (
        known.producer_epoch == NO_PRODUCER_EPOCH
        or producer_id == known.producer_id
        # Its id was used up, and it did not hear of the new one.
        or (producer_id == known.previous_producer_id and is_exhausted(producer_epoch))
    )


def _is_same(known: Transaction, prepared: Transaction) -> bool:
    """A coordinator that was loaded anew does not know all that the one before it did."""
    return (
        known.state is prepared.state
        and known.producer_id == prepared.producer_id
        and known.producer_epoch == prepared.producer_epoch
        and known.start_ms == prepared.start_ms
        and known.updated_ms == prepared.updated_ms
    )


def _level(context: Context) -> int:
    """The cluster's transaction.version."""
    level: int = context.image.features.get(TRANSACTION_VERSION, 0)
    return level


def _who(transaction: Transaction) -> str:
    return f"{transaction.producer_id}/{transaction.producer_epoch}"
