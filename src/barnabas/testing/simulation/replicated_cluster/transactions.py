"""Transactional producers (transaction.version 2, KIP-890), and the book of what they did.

A transaction is committed or not in all partitions alike, as its producer was told; a transaction whose
commit was never requested is not committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.simulated.world import InvariantError
from barnabas.testing.simulation.replicated_cluster.client import Cluster, ClusterClient
from barnabas.testing.simulation.replicated_cluster.history import PartitionHistory
from barnabas.testing.simulation.replicated_cluster.producers import (
    ACKS_ALL,
    PRODUCE,
    RETRIABLE,
    outcome,
    produce_request,
)

FIND_COORDINATOR, INIT_PRODUCER_ID, END_TXN = 10, 22, 26
TRANSACTION_KEY = 1
BEGIN_EVERY_NS = 120 * NS_PER_MS
RETRY_NS = 50 * NS_PER_MS
TIMEOUT_MS = 1_500
# Long enough that most transactions end before; the coordinator aborts the others.
TRANSACTION_TIMEOUT_MS = 4_000
MAX_PARTITIONS = 3
MAX_TRIES = 12
FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        # The coordinator has aborted it, and the next transaction has not begun.
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
RETRIED = RETRIABLE | {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


class Ending(Enum):
    """How far the end of a transaction got, as its producer knows it."""

    OPEN = "its commit was never requested"
    COMMITTING = "its commit was requested"
    COMMITTED = "its commit was acknowledged"
    ABORTED = "its abort was acknowledged"


@dataclass
class Transaction:
    """One transaction: its values by partition, acknowledged or not."""

    name: str
    values: dict[tuple[Uuid, int], list[bytes]] = field(default_factory=dict)
    ending: Ending = Ending.OPEN


class TransactionalProducer(ClusterClient):
    """Writes to some partitions, commits or aborts, and begins again; after a crash with the same id."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.transactional_id = f"tx-{node_id}"
        super().__init__(cluster, node_id)

    @property
    def is_idle(self) -> bool:
        return self._current is None

    @property
    def committed_count(self) -> int:
        return sum(each.ending is Ending.COMMITTED for each in self.transactions.values())

    def started(self) -> None:
        self._generation = getattr(self, "_generation", 0) + 1
        self._coordinator = -1
        self.producer_id = self.producer_epoch = -1
        self._current: Transaction | None = None
        self._later(RETRY_NS, self._initialize)

    def _later(self, delay_ns: int, action: object, *arguments: object) -> None:
        """Not after another start."""
        generation = self._generation

        def run() -> None:
            if generation == self._generation:
                action(*arguments)  # type: ignore[operator]

        self.after(delay_ns, run)

    # The coordinator

    def _find(self, then: object) -> None:
        request = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=[self.transactional_id])
        self.send(self.any_broker(), FIND_COORDINATOR, request, partial(self._found, then), TIMEOUT_MS)

    def _found(self, then: object, message: Message | None) -> None:
        if isinstance(message, FindCoordinatorResponse) and not message.coordinators[0].error_code:
            self._coordinator = message.coordinators[0].node_id
        self._later(RETRY_NS, then)

    def _initialize(self) -> None:
        if self._coordinator < 0:
            self._find(self._initialize)
            return
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        self.send(
            self._coordinator,
            INIT_PRODUCER_ID,
            request,
            partial(self._initialized, self._generation),
            TIMEOUT_MS,
        )

    def _initialized(self, generation: int, message: Message | None) -> None:
        if generation != self._generation:
            return
        code = ErrorCode.REQUEST_TIMED_OUT
        if isinstance(message, InitProducerIdResponse):
            code = ErrorCode(message.error_code)
            if code is ErrorCode.NONE:
                self.producer_id, self.producer_epoch = message.producer_id, message.producer_epoch
                self._later(BEGIN_EVERY_NS, self._begin)
                return
        if code not in RETRIED and code not in FENCED:
            self.violate(f"InitProducerId: {code!r}")
        self._coordinator = -1
        self._later(RETRY_NS, self._initialize)

    # A transaction

    def _begin(self) -> None:
        partitions = self.partitions() if self.is_active else []
        if not partitions:
            self._later(BEGIN_EVERY_NS, self._begin)
            return
        transaction = Transaction(f"{self.id}.{len(self.transactions)}")
        self.transactions[transaction.name] = self._current = transaction
        histories = []
        for _ in range(self.random.integer(1, MAX_PARTITIONS)):
            name, topic_id, index, _ = partitions[self.random.integer(0, len(partitions) - 1)]
            if (topic_id, index) not in transaction.values:
                count = self.random.integer(1, 2)
                transaction.values[topic_id, index] = [
                    f"{transaction.name}:{number}".encode() for number in range(count)
                ]
                histories.append(self.cluster.history(name, topic_id, index))
        will_commit = self.random.integer(0, 3) > 0
        self._write(transaction, histories, MAX_TRIES, will_commit)

    def _write(
        self, transaction: Transaction, histories: list[PartitionHistory], tries: int, will_commit: bool
    ) -> None:
        """The next of these partitions."""
        if not histories or tries <= 0:
            self._end(transaction, will_commit and not histories)
            return
        history = histories[0]
        state = self.image().partition(history.topic_id, history.index)
        if state is None or state.leader < 0:
            self._later(RETRY_NS, self._write, transaction, histories, tries - 1, will_commit)
            return
        now_ms = self.node.clock.wall_ms()
        values = transaction.values[history.topic_id, history.index]
        records = build(
            [Record(place, now_ms, None, value) for place, value in enumerate(values)],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        request = produce_request(history, bytes(records), ACKS_ALL, self.transactional_id)
        done = partial(self._written, self._generation, transaction, histories, tries, will_commit)
        self.send(state.leader, PRODUCE, request, done, TIMEOUT_MS)

    def _written(
        self,
        generation: int,
        transaction: Transaction,
        histories: list[PartitionHistory],
        tries: int,
        will_commit: bool,
        message: Message | None,
    ) -> None:
        if generation != self._generation:
            return
        code, _ = outcome(message)
        if code is ErrorCode.NONE:
            self._later(1, self._write, transaction, histories[1:], tries, will_commit)
        elif code in FENCED:
            self._give_up()
        else:
            if code not in RETRIED and self.exists(histories[0].topic_id):
                self.violate(f"{histories[0].name}: {code!r}")
            self._later(RETRY_NS, self._write, transaction, histories, tries - 1, will_commit)

    def _give_up(self) -> None:
        """Begin with another epoch: what is open is aborted."""
        self.started()

    # The end of a transaction

    def _end(self, transaction: Transaction, is_commit: bool) -> None:
        if self._coordinator < 0:
            self._find(partial(self._end, transaction, is_commit))
            return
        if is_commit:
            transaction.ending = Ending.COMMITTING
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=is_commit,
        )
        done = partial(self._ended, self._generation, transaction, is_commit)
        self.send(self._coordinator, END_TXN, request, done, TIMEOUT_MS)

    def _ended(
        self, generation: int, transaction: Transaction, is_commit: bool, message: Message | None
    ) -> None:
        if generation != self._generation:
            return
        code = ErrorCode.REQUEST_TIMED_OUT
        if isinstance(message, EndTxnResponse):
            code = ErrorCode(message.error_code)
            if code is ErrorCode.NONE:
                transaction.ending = Ending.COMMITTED if is_commit else Ending.ABORTED
                self.producer_id, self.producer_epoch = message.producer_id, message.producer_epoch
                self._current = None
                self._later(BEGIN_EVERY_NS, self._begin)
                return
        if code in FENCED:
            self._give_up()
            return
        if code not in RETRIED:
            self.violate(f"EndTxn of {transaction.name}: {code!r}")
        self._coordinator = -1
        self._later(RETRY_NS, self._end, transaction, is_commit)


def check_transactions(
    producers: list[TransactionalProducer], histories: dict[tuple[Uuid, int], PartitionHistory]
) -> None:
    """Called when all transactions have ended: each is there whole, or not at all."""
    for producer in producers:
        for transaction in producer.transactions.values():
            _check_transaction(transaction, histories)


def _check_transaction(transaction: Transaction, histories: dict[tuple[Uuid, int], PartitionHistory]) -> None:
    outcomes: dict[str, bool | None] = {}
    for key, values in transaction.values.items():
        history = histories.get(key)
        if history is None:
            continue
        for value in values:
            offset = history.offsets.get(value)
            outcomes[f"{history.name} {value!r}"] = None if offset is None else history.is_visible(offset)
    committed = [where for where, is_visible in outcomes.items() if is_visible]
    if transaction.ending in (Ending.OPEN, Ending.ABORTED) and committed:
        raise InvariantError(f"transaction {transaction.name}: {transaction.ending.value}; {outcomes}")
    if transaction.ending is Ending.COMMITTED and len(committed) < len(outcomes):
        raise InvariantError(f"transaction {transaction.name}: {transaction.ending.value}; {outcomes}")
    if 0 < len(committed) < len(outcomes):
        raise InvariantError(f"transaction {transaction.name} is torn: {outcomes}")
