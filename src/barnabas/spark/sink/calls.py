"""The driver's requests to brokers: transaction states, EndTxn, the control topic.

One request each, with retries; their order belongs in `driver`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.admin.admin import Admin
from barnabas.client.admin.configs import ConfigResource, ConfigResourceType
from barnabas.client.admin.topics import NewTopic
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.cluster import CoordinatorType
from barnabas.client.errors.base import AuthorizationError, RetriableError, check
from barnabas.client.errors.local import KafkaTimeoutError
from barnabas.client.producer.transactions import LAST_EXPLICIT_END_TXN
from barnabas.client.retries import Deadline
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.spark.sink.decision import BrokenPromiseError, OpenTransaction, Seen, task_id_pattern

ONGOING = "Ongoing"
LIST_PATIENCE_MS = 5_000
# The maximum number of concurrent requests.
MAX_ENDINGS = 64
# From this version on ListTransactions takes a pattern (KIP-1152).
PATTERN_VERSION = 2
LIST_TRANSACTIONS_KEY = 66
CLEANUP_POLICY, COMPACT = "cleanup.policy", "compact"
# The time-out of a transaction that is opened only to abort another one.
FENCING_TIMEOUT_MS = 60_000
_ABORT_HAS_BEGUN = frozenset({ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS})
# Errors of a coordinator for a transaction that is not the open one.
_NOT_OPEN = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)

_TRANSACTION = CoordinatorType.TRANSACTION


class SinkCalls(Admin):
    """An admin client with additional calls for a sink's driver."""

    # A control topic that was checked once is not checked again.
    _fit_topic: str | None = None

    def deadline(self) -> Deadline:
        return self._deadline(None)

    async def seen(self, transactional_ids: Iterable[str]) -> dict[str, Seen]:
        """Return transactions as their coordinators know them; unknown ones are left out."""
        outcomes = await self.describe_transactions(transactional_ids)
        for error in outcomes.errors.values():
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise error
        return {
            name: Seen(described.state, described.producer_id, described.producer_epoch)
            for name, described in outcomes.values_by_key.items()
        }

    async def ongoing(self, sink: str) -> list[str]:
        """Return transactional ids of the sink's tasks that have an open transaction, and perhaps those of
        others.

        A broker that does not respond is left out: its transactions stay open until the next sweep or their
        time-out, which delays readers and does no other harm.
        """
        connection = await self.cluster.any_connection()
        has_pattern = connection.version_for(LIST_TRANSACTIONS_KEY) >= PATTERN_VERSION
        outcomes = await self.list_transactions(
            states=[ONGOING],
            transactional_id_pattern=task_id_pattern(sink) if has_pattern else None,
            timeout_ms=LIST_PATIENCE_MS,
        )
        for error in outcomes.errors.values():
            if not isinstance(error, RetriableError | KafkaTimeoutError):
                raise error
        return [
            listing.transactional_id for listings in outcomes.values_by_key.values() for listing in listings
        ]

    async def fence(self, transactional_ids: Iterable[str]) -> None:
        """Abort the open transactions of these ids.  It is enough that it has begun: it will complete."""
        await asyncio.gather(*(self._fence(transactional_id) for transactional_id in transactional_ids))

    async def _fence(self, transactional_id: str) -> None:
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=FENCING_TIMEOUT_MS
        )

        async def attempt() -> None:
            connection = await self._coordinator_of(transactional_id)
            response = await connection.send(request, InitProducerIdResponse)
            if response.error_code not in _ABORT_HAS_BEGUN:
                check(response.error_code)

        await self._watched(transactional_id, "InitProducerId", attempt)

    async def end_all(
        self, transactions: Iterable[OpenTransaction], *, committed: bool, implicit: bool
    ) -> list[OpenTransaction]:
        """Commit or abort; returns those that are no longer open."""
        turn = asyncio.Semaphore(MAX_ENDINGS)
        closed: list[OpenTransaction] = []

        async def end(open_transaction: OpenTransaction) -> None:
            async with turn:
                try:
                    await self._end(open_transaction, committed, implicit)
                except KafkaError as error:
                    if error.code not in _NOT_OPEN:
                        raise
                    closed.append(open_transaction)

        await asyncio.gather(*(end(transaction) for transaction in transactions))
        return closed

    async def _end(self, open_transaction: OpenTransaction, committed: bool, implicit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=open_transaction.transactional_id,
            producer_id=open_transaction.producer_id,
            producer_epoch=open_transaction.producer_epoch,
            committed=committed,
        )

        async def attempt() -> None:
            connection = await self._coordinator_of(open_transaction.transactional_id)
            highest = None if implicit else LAST_EXPLICIT_END_TXN
            response = await connection.send(request, EndTxnResponse, highest=highest)
            check(response.error_code)

        await self._watched(open_transaction.transactional_id, "EndTxn", attempt)

    async def _coordinator_of(self, transactional_id: str) -> BrokerConnection:
        return await self.cluster.coordinator(transactional_id, _TRANSACTION)

    async def _watched(
        self, transactional_id: str, what: str, attempt: Callable[[], Awaitable[None]]
    ) -> None:
        """Retry until success or a final error; a coordinator that has moved is looked up again."""

        async def watched() -> None:
            try:
                await attempt()
            except RetriableError as error:
                self.cluster.coordinator_failed(transactional_id, _TRANSACTION, error)
                raise

        await self.cluster.retries.until(self.deadline(), what, watched)

    async def ensure_control_topic(self, name: str) -> None:
        """Create it compacted, so that it keeps the last decision of each sink forever; one partition is
        enough."""
        if self.cluster.wanted is not None:
            self.cluster.wanted.add(name)
        if name not in self.cluster.metadata.topics:
            await self.cluster.retries.until(self.deadline(), "Metadata", self.cluster.update)
        known = self.cluster.metadata.topics.get(name)
        if known is not None and known.partitions:
            if name != self._fit_topic:
                await self._check_control_topic(name, len(known.partitions))
                self._fit_topic = name
            return
        new = NewTopic(name, num_partitions=1, configs={"cleanup.policy": "compact"})
        error = (await self.create_topics([new])).error_of(name)
        if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise error
        await self.cluster.topic(name, self.deadline())

    async def _check_control_topic(self, name: str, partitions: int) -> None:
        """A topic that deletes its records would lose decisions, and batches would be written twice."""
        wrong = "" if partitions == 1 else f"it has {partitions} partitions and must have one"
        resource = ConfigResource(ConfigResourceType.TOPIC, name)
        response = await self.describe_configs([resource], names=[CLEANUP_POLICY])
        error = response.error_of(resource)
        # Without permission to see options, the topic's creator must be trusted.
        if error is not None and not isinstance(error, AuthorizationError):
            raise error
        policy = None if error is not None else response[resource][CLEANUP_POLICY].value
        if policy not in (None, COMPACT):
            wrong = f"its {CLEANUP_POLICY} is {policy} and must be {COMPACT}"
        if wrong:
            raise BrokenPromiseError(
                f"the topic {name} cannot keep the decisions of a sink: {wrong}; change that, or "
                "give another controlTopic"
            )
