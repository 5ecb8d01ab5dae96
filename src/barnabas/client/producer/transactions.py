"""A producer's transactions (KIP-98, KIP-447, KIP-890): states, and requests to the coordinators.

Batches and sequence numbers belong in `sender`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.cluster import Cluster, CoordinatorType
from barnabas.client.errors.base import ClientError, RetriableError, check
from barnabas.client.errors.groups import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    ProducerFencedError,
    TransactionAbortableError,
)
from barnabas.client.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from barnabas.client.producer.accumulator import NO_IDENTITY
from barnabas.client.producer.identity import Identity
from barnabas.client.producer.transaction_requests import (
    add_partitions_request,
    check_added,
    check_committed,
    txn_offset_commit_request,
)
from barnabas.client.retries import Deadline
from barnabas.config.settings import Settings
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse

FEATURE = "transaction.version"
# From this level on brokers add partitions themselves, and every transaction has its own epoch.
IMPLICIT_LEVEL = 2
# The highest versions for brokers below that level.
LAST_CLIENT_ADD_PARTITIONS = 3
LAST_EXPLICIT_END_TXN = 4
LAST_EXPLICIT_OFFSET_COMMIT = 4

_FATAL = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    }
)


class State(Enum):
    NEW = "init_transactions() was not called"
    READY = "no transaction is open"
    OPEN = "a transaction is open"
    ENDING = "the transaction is being committed or aborted"
    FAILED = "the transaction has failed and can only be aborted"
    DEAD = "the producer cannot continue"


class Transactions:
    """The current transaction of a producer, and its coordinator."""

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        identity: Identity,
        wake: Callable[[], None],
        settle: Callable[[bool], Awaitable[None]],
    ) -> None:
        self._cluster = cluster
        self._identity = identity
        self._wake = wake
        # Waits until all batches are finished; True drops those that were not sent yet.
        self._settle = settle
        self._id: str = settings["transactional.id"]
        self._timeout_ms: int = settings["transaction.timeout.ms"]
        self.state = State.NEW
        self.error: KafkaError | None = None
        self._implicit = True
        self._added: set[TopicPartition] = set()
        self._pending: set[TopicPartition] = set()
        self._adding: asyncio.Task[None] | None = None
        self._has_work = False
        self._epoch_is_spent = False

    # ----------------------------------------------------------------------------------------- for the sender

    @property
    def is_implicit(self) -> bool:
        """Whether brokers add partitions themselves and give every transaction its own epoch (KIP-890)."""
        return self._implicit

    @property
    def announces_partitions(self) -> bool:
        """Whether partitions must be added before they are written to (brokers before KIP-890)."""
        return not self._implicit

    def may_send(self, partition: TopicPartition) -> bool:
        if self._implicit or partition in self._added:
            self._has_work = True
            return True
        self._pending.add(partition)
        if self._adding is None or self._adding.done():
            self._adding = asyncio.ensure_future(self._add_partitions())
        return False

    def batch_failed(self, error: KafkaError) -> None:
        """The transaction can only be aborted, unless the producer cannot continue at all.

        A partition that refuses a batch with INVALID_TXN_STATE does not know its transaction, or no longer
        knows it: the coordinator can still abort it, as with Apache Kafka's producer.
        """
        self._epoch_is_spent = True
        if error.code is ErrorCode.INVALID_TXN_STATE and self.state in (State.OPEN, State.ENDING):
            self.state, self.error = State.FAILED, error
        else:
            self._fail(error)

    def _fail(self, error: KafkaError) -> None:
        if isinstance(error, InvalidProducerEpochError):
            error = ProducerFencedError()
        if error.code in _FATAL:
            self.state, self.error = State.DEAD, error
        elif self.state in (State.OPEN, State.ENDING):
            self.state, self.error = State.FAILED, error

    def check_can_send(self) -> None:
        """Raise unless a record may be sent now."""
        if self.state is not State.OPEN:
            raise self._refusal("send")

    def _refusal(self, operation: str) -> KafkaError:
        if self.state is State.DEAD and self.error is not None:
            return self.error
        if self.state is State.FAILED and self.error is not None:
            return TransactionAbortableError(f"cannot {operation}: the transaction has failed: {self.error}")
        return InvalidTxnStateError(f"cannot {operation}: {self.state.value}")

    # ------------------------------------------------------------------------------------------- for the user

    async def init(self, deadline: Deadline) -> None:
        """Acquire the transactional id: fences earlier producers and aborts their open transactions."""
        if self.state is not State.NEW:
            raise self._refusal("init_transactions()")
        await self._init_producer_id(deadline, NO_IDENTITY)
        self.state = State.READY

    def adopt(self, identity: tuple[int, int], *, implicit: bool) -> None:
        """Continue in place of a former producer, with its id, epoch and protocol (`is_implicit`); unlike
        init() this fences no producer, and brokers reject it once another producer has taken over."""
        if self.state is not State.NEW:
            raise self._refusal("adopt an identity")
        self._identity.pair = identity
        self._implicit = implicit
        self.state = State.READY

    async def _init_producer_id(self, deadline: Deadline, former: tuple[int, int]) -> None:
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=former[0],
            producer_epoch=former[1],
        )

        async def attempt() -> None:
            connection = await self._coordinator()
            response = await connection.send(request, InitProducerIdResponse)
            check(response.error_code)
            self._identity.pair = (response.producer_id, response.producer_epoch)
            self._implicit = connection.protocol.feature_levels.get(FEATURE, 0) >= IMPLICIT_LEVEL

        await self._request(deadline, "InitProducerId", attempt)

    def begin(self) -> None:
        if self.state is not State.READY:
            raise self._refusal("begin_transaction()")
        self.state = State.OPEN
        self.error = None
        self._added.clear()
        self._pending.clear()
        self._has_work = False
        self._epoch_is_spent = False

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        deadline: Deadline,
    ) -> None:
        """Add a consumer's commits to the transaction."""
        if self.state is not State.OPEN:
            raise self._refusal("send_offsets_to_transaction()")
        if not offsets:
            return
        if not self._implicit:
            await self._request(deadline, "AddOffsetsToTxn", lambda: self._add_offsets(group.group_id))
        self._has_work = True
        request = txn_offset_commit_request(self._id, self._identity.pair, offsets, group)
        highest = None if self._implicit else LAST_EXPLICIT_OFFSET_COMMIT

        async def attempt() -> None:
            connection = await self._cluster.coordinator(group.group_id, CoordinatorType.GROUP)
            check_committed(await connection.send(request, TxnOffsetCommitResponse, highest=highest))

        await self._request(deadline, "TxnOffsetCommit", attempt, (group.group_id, CoordinatorType.GROUP))

    async def commit(self, deadline: Deadline) -> None:
        """Send waiting records, then commit.  After an error: abort."""
        if self.state is not State.OPEN:
            raise self._refusal("commit_transaction()")
        await self._settle(False)
        if self.state is not State.OPEN:
            raise self._refusal("commit_transaction()")
        self.state = State.ENDING
        await self._end(deadline, committed=True)

    async def abort(self, deadline: Deadline) -> None:
        """Drop waiting records, then abort."""
        if self.state not in (State.OPEN, State.FAILED):
            raise self._refusal("abort_transaction()")
        self.state = State.ENDING
        await self._settle(True)
        self.state = State.ENDING
        await self._end(deadline, committed=False)

    async def _end(self, deadline: Deadline, *, committed: bool) -> None:
        if self._has_work or self._added:
            producer_id, epoch = self._identity.pair
            request = EndTxnRequest(
                transactional_id=self._id, producer_id=producer_id, producer_epoch=epoch, committed=committed
            )

            async def attempt() -> None:
                connection = await self._coordinator()
                highest = None if self._implicit else LAST_EXPLICIT_END_TXN
                response = await connection.send(request, EndTxnResponse, highest=highest)
                check(response.error_code)
                if response.producer_id >= 0:
                    self._identity.pair = (response.producer_id, response.producer_epoch)

            await self._request(deadline, "EndTxn", attempt)
        if self._epoch_is_spent and not self._implicit:
            # Dropped batches had sequence numbers: a new epoch restarts them (KIP-360).
            await self._init_producer_id(deadline, self._identity.pair)
        self.state = State.READY
        self.error = None

    # -------------------------------------------------------------------------------------------- coordinator

    async def _coordinator(self) -> BrokerConnection:
        return await self._cluster.coordinator(self._id, CoordinatorType.TRANSACTION)

    async def _request(
        self,
        deadline: Deadline,
        operation: str,
        attempt: Callable[[], Awaitable[None]],
        asked: tuple[str, CoordinatorType] | None = None,
    ) -> None:
        """Retry until success or the deadline; other errors fail the transaction, or the producer.

        `asked` is the coordinator, if not the transaction's.
        """
        key, kind = asked or (self._id, CoordinatorType.TRANSACTION)

        async def watched() -> None:
            try:
                await attempt()
            except RetriableError as error:
                self._cluster.coordinator_failed(key, kind, error)
                raise

        try:
            await self._cluster.retries.until(deadline, operation, watched)
        except RetriableError:
            # The outcome is unknown; the caller may make the same call again.
            if self.state is State.ENDING:
                self.state = State.OPEN
            raise
        except ClientError as error:
            self._fail(error)
            raise self.error or error from error

    async def _add_offsets(self, group_id: str) -> None:
        producer_id, epoch = self._identity.pair
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id, producer_id=producer_id, producer_epoch=epoch, group_id=group_id
        )
        response = await (await self._coordinator()).send(request, AddOffsetsToTxnResponse)
        check(response.error_code)

    async def _add_partitions(self) -> None:
        failures = 0
        while self._pending and self.state is State.OPEN:
            requested = set(self._pending)
            request = add_partitions_request(self._id, self._identity.pair, requested)
            try:
                connection = await self._coordinator()
                response = await connection.send(
                    request, AddPartitionsToTxnResponse, highest=LAST_CLIENT_ADD_PARTITIONS
                )
                check_added(response)
            except RetriableError as error:
                self._cluster.coordinator_failed(self._id, CoordinatorType.TRANSACTION, error)
                await asyncio.sleep(self._cluster.retries.pause_s(failures))
                failures += 1
                continue
            except ClientError as error:
                self._fail(error)
                break
            self._added |= requested
            self._pending -= requested
        self._wake()
