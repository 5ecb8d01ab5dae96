"""Transactions: list, describe, abort a hanging one, fence producers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from barnabas.base.errors import KafkaError
from barnabas.client.admin.calls import AdminCalls, outcome
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.cluster import CoordinatorType
from barnabas.client.errors.kinds import ClientError, check
from barnabas.client.model import TopicPartition
from barnabas.client.outcomes import Outcomes
from barnabas.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

_TRANSACTION = CoordinatorType.TRANSACTION
NO_START = -1


@dataclass(frozen=True, slots=True)
class TransactionListing:
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    # None while no transaction is open.
    transaction_start_time_ms: int | None
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class AbortTransactionSpec:
    """A transaction that hangs in one partition, as describe_producers shows it."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class FencedProducer:
    producer_id: int
    producer_epoch: int


class TransactionCalls(AdminCalls):
    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        duration_ms: int = -1,
        transactional_id_pattern: str | None = None,
        timeout_ms: int | None = None,
    ) -> Outcomes[int, tuple[TransactionListing, ...]]:
        """Transactions by the broker that coordinates them, as far as they match."""
        request = ListTransactionsRequest(
            state_filters=sorted(states),
            producer_id_filters=sorted(producer_ids),
            duration_filter=duration_ms,
            transactional_id_pattern=transactional_id_pattern,
        )
        brokers = [node.id for node in await self._brokers(timeout_ms)]
        answers = await asyncio.gather(*(self._list_at(one, request, timeout_ms) for one in brokers))
        return Outcomes(dict(zip(brokers, answers, strict=True)))

    async def _list_at(
        self, broker: int, request: ListTransactionsRequest, timeout_ms: int | None
    ) -> tuple[TransactionListing, ...] | KafkaError:
        async def attempt() -> ListTransactionsResponse:
            answer = await (await self.cluster.connection_to(broker)).ask(request, ListTransactionsResponse)
            check(answer.error_code)
            return answer

        try:
            deadline = self._deadline(timeout_ms)
            answer = await self.cluster.retries.until(deadline, "ListTransactions", attempt)
        except ClientError as error:
            return error
        return tuple(
            TransactionListing(one.transactional_id, one.producer_id, one.transaction_state)
            for one in answer.transaction_states
        )

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, TransactionDescription]:
        """State, producer and partitions of transactional ids."""

        async def ask(
            connection: BrokerConnection, some: list[str]
        ) -> Mapping[str, TransactionDescription | KafkaError]:
            request = DescribeTransactionsRequest(transactional_ids=some)
            answer = await connection.ask(request, DescribeTransactionsResponse)
            return {
                one.transactional_id: outcome(one.error_code, None, _described(one, connection.node.id))
                for one in answer.transaction_states
            }

        return await self._through_coordinators(
            transactional_ids, _TRANSACTION, ask, timeout_ms, "DescribeTransactions"
        )

    async def abort_transaction(self, spec: AbortTransactionSpec, *, timeout_ms: int | None = None) -> None:
        """Write an abort marker into one partition, past the coordinator (KIP-664)."""
        request = WriteTxnMarkersRequest(
            markers=[
                WriteTxnMarkersRequest.WritableTxnMarker(
                    producer_id=spec.producer_id,
                    producer_epoch=spec.producer_epoch,
                    transaction_result=False,
                    topics=[
                        WriteTxnMarkersRequest.WritableTxnMarkerTopic(
                            name=spec.partition.topic, partition_indexes=[spec.partition.partition]
                        )
                    ],
                    coordinator_epoch=spec.coordinator_epoch,
                )
            ]
        )

        async def ask(
            connection: BrokerConnection, _: list[TopicPartition]
        ) -> Mapping[TopicPartition, KafkaError | None]:
            answer = await connection.ask(request, WriteTxnMarkersResponse)
            return {
                TopicPartition(topic.name, one.partition_index): outcome(one.error_code, None, None)
                for marker in answer.markers
                for topic in marker.topics
                for one in topic.partitions
            }

        outcomes = await self.ask_leaders([spec.partition], ask, timeout_ms, "WriteTxnMarkers")
        outcomes.raise_first()

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, FencedProducer]:
        """Take over transactional ids: their producers are fenced, their open transactions aborted."""
        # What the ids then have for a time-out, until their producers come back: as Apache Kafka's client.
        own_timeout_ms = self.settings["request.timeout.ms"] if timeout_ms is None else timeout_ms

        async def ask(
            connection: BrokerConnection, some: list[str]
        ) -> Mapping[str, FencedProducer | KafkaError]:
            found: dict[str, FencedProducer | KafkaError] = {}
            for transactional_id in some:
                request = InitProducerIdRequest(
                    transactional_id=transactional_id, transaction_timeout_ms=own_timeout_ms
                )
                answer = await connection.ask(request, InitProducerIdResponse)
                fenced = FencedProducer(answer.producer_id, answer.producer_epoch)
                found[transactional_id] = outcome(answer.error_code, None, fenced)
            return found

        return await self._through_coordinators(
            transactional_ids, _TRANSACTION, ask, timeout_ms, "InitProducerId"
        )

    async def force_terminate_transaction(
        self, transactional_id: str, *, timeout_ms: int | None = None
    ) -> None:
        """Abort whatever transaction this id has open (KIP-939)."""
        (await self.fence_producers([transactional_id], timeout_ms=timeout_ms)).raise_first()


def _described(
    told: DescribeTransactionsResponse.TransactionState, coordinator_id: int
) -> TransactionDescription:
    started_ms = told.transaction_start_time_ms
    return TransactionDescription(
        coordinator_id,
        told.transaction_state,
        told.producer_id,
        told.producer_epoch,
        told.transaction_timeout_ms,
        None if started_ms == NO_START else started_ms,
        frozenset(
            TopicPartition(topic.topic, number) for topic in told.topics for number in topic.partitions
        ),
    )
