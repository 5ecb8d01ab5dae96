"""Transactions: list, describe, abort a hanging one, fence producers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from barnabas.base.errors import KafkaError
from barnabas.client.admin.calls import AdminCalls, outcome
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.cluster import CoordinatorType
from barnabas.client.errors.base import ClientError, check
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
    """A listed transaction."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transaction, its producer and its partitions."""

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
    """A hanging transaction in one partition, as describe_producers reports it."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """The id and epoch after which the fenced producer is refused."""

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
        """List matching transactions by the id of their coordinator."""
        request = ListTransactionsRequest(
            state_filters=sorted(states),
            producer_id_filters=sorted(producer_ids),
            duration_filter=duration_ms,
            transactional_id_pattern=transactional_id_pattern,
        )
        brokers = [node.id for node in await self._brokers(timeout_ms)]
        responses = await asyncio.gather(*(self._list_at(broker, request, timeout_ms) for broker in brokers))
        return Outcomes(dict(zip(brokers, responses, strict=True)))

    async def _list_at(
        self, broker: int, request: ListTransactionsRequest, timeout_ms: int | None
    ) -> tuple[TransactionListing, ...] | KafkaError:
        async def attempt() -> ListTransactionsResponse:
            response = await (await self.cluster.connection_to(broker)).send(
                request, ListTransactionsResponse
            )
            check(response.error_code)
            return response

        try:
            deadline = self._deadline(timeout_ms)
            response = await self.cluster.retries.until(deadline, "ListTransactions", attempt)
        except ClientError as error:
            return error
        return tuple(
            TransactionListing(state.transactional_id, state.producer_id, state.transaction_state)
            for state in response.transaction_states
        )

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, TransactionDescription]:
        """Return state, producer and partitions of transactional ids."""

        async def send(
            connection: BrokerConnection, requested: list[str]
        ) -> Mapping[str, TransactionDescription | KafkaError]:
            request = DescribeTransactionsRequest(transactional_ids=requested)
            response = await connection.send(request, DescribeTransactionsResponse)
            return {
                state.transactional_id: outcome(state.error_code, None, _described(state, connection.node.id))
                for state in response.transaction_states
            }

        return await self._through_coordinators(
            transactional_ids, _TRANSACTION, send, timeout_ms, "DescribeTransactions"
        )

    async def abort_transaction(self, spec: AbortTransactionSpec, *, timeout_ms: int | None = None) -> None:
        """Write an abort marker into one partition, bypassing the coordinator (KIP-664)."""
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

        async def send(
            connection: BrokerConnection, _: list[TopicPartition]
        ) -> Mapping[TopicPartition, KafkaError | None]:
            response = await connection.send(request, WriteTxnMarkersResponse)
            return {
                TopicPartition(topic.name, partition.partition_index): outcome(
                    partition.error_code, None, None
                )
                for marker in response.markers
                for topic in marker.topics
                for partition in topic.partitions
            }

        outcomes = await self.send_to_leaders([spec.partition], send, timeout_ms, "WriteTxnMarkers")
        outcomes.raise_first()

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, FencedProducer]:
        """Fence the producers of transactional ids and abort their open transactions."""
        # The ids keep this time-out until their producers initialize again, as with Apache Kafka's client.
        own_timeout_ms = self.settings["request.timeout.ms"] if timeout_ms is None else timeout_ms

        async def send(
            connection: BrokerConnection, requested: list[str]
        ) -> Mapping[str, FencedProducer | KafkaError]:
            results: dict[str, FencedProducer | KafkaError] = {}
            for transactional_id in requested:
                request = InitProducerIdRequest(
                    transactional_id=transactional_id, transaction_timeout_ms=own_timeout_ms
                )
                response = await connection.send(request, InitProducerIdResponse)
                fenced = FencedProducer(response.producer_id, response.producer_epoch)
                results[transactional_id] = outcome(response.error_code, None, fenced)
            return results

        return await self._through_coordinators(
            transactional_ids, _TRANSACTION, send, timeout_ms, "InitProducerId"
        )

    async def force_terminate_transaction(
        self, transactional_id: str, *, timeout_ms: int | None = None
    ) -> None:
        """Abort the open transaction of this id, if there is one (KIP-939)."""
        (await self.fence_producers([transactional_id], timeout_ms=timeout_ms)).raise_first()


def _described(
    state: DescribeTransactionsResponse.TransactionState, coordinator_id: int
) -> TransactionDescription:
    started_ms = state.transaction_start_time_ms
    return TransactionDescription(
        coordinator_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        None if started_ms == NO_START else started_ms,
        frozenset(
            TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions
        ),
    )
