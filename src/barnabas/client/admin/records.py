"""Offsets by time, deletion of records, and who produces into a partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from barnabas.base.errors import KafkaError
from barnabas.base.ids import CONSUMER_REPLICA
from barnabas.client.admin.calls import AdminCalls, outcome
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.errors.cluster import UnsupportedVersionError
from barnabas.client.model import TopicPartition, by_topic
from barnabas.client.outcomes import Outcomes
from barnabas.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse


class OffsetSpec(IntEnum):
    """Which offset, when it is not asked for by a time; a plain number is a time in milliseconds."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class IsolationLevel(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


# The version of ListOffsets that first knows a special time.
_FIRST_VERSIONS = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset with the time of its record; -1 where there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer that a partition remembers; -1 where nothing is known."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class RecordCalls(AdminCalls):
    async def list_offsets(
        self,
        partitions: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, ListedOffset]:
        """The offset of each partition: the first, the last, that of a time."""

        async def ask(
            connection: BrokerConnection, some: list[TopicPartition]
        ) -> Mapping[TopicPartition, ListedOffset | KafkaError]:
            for asked in some:
                _check_possible(connection, partitions[asked])
            request = self._offsets_request(some, partitions, isolation_level, timeout_ms)
            answer = await connection.ask(request, ListOffsetsResponse)
            return {
                TopicPartition(topic.name, one.partition_index): outcome(
                    one.error_code, None, ListedOffset(one.offset, one.timestamp, one.leader_epoch)
                )
                for topic in answer.topics
                for one in topic.partitions
            }

        return await self.ask_leaders(partitions, ask, timeout_ms, "ListOffsets")

    def _offsets_request(
        self,
        some: list[TopicPartition],
        times: Mapping[TopicPartition, OffsetSpec | int],
        isolation_level: IsolationLevel,
        timeout_ms: int | None,
    ) -> ListOffsetsRequest:
        return ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA,
            isolation_level=isolation_level,
            topics=[
                ListOffsetsRequest.Topic(
                    name=topic,
                    partitions=[
                        ListOffsetsRequest.Partition(
                            partition_index=number, timestamp=int(times[TopicPartition(topic, number)])
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(some).items()
            ],
            timeout_ms=self._deadline(timeout_ms).left_ms,
        )

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartition, int]:
        """Delete the records below an offset, -1 for all; the new first offset of each partition."""
        limit_ms = self._deadline(timeout_ms).left_ms

        async def ask(
            connection: BrokerConnection, some: list[TopicPartition]
        ) -> Mapping[TopicPartition, int | KafkaError]:
            request = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsRequest.Topic(
                        name=topic,
                        partitions=[
                            DeleteRecordsRequest.Partition(
                                partition_index=number, offset=before[TopicPartition(topic, number)]
                            )
                            for number in numbers
                        ],
                    )
                    for topic, numbers in by_topic(some).items()
                ],
                timeout_ms=limit_ms,
            )
            answer = await connection.ask(request, DeleteRecordsResponse)
            return {
                TopicPartition(topic.name, one.partition_index): outcome(
                    one.error_code, None, one.low_watermark
                )
                for topic in answer.topics
                for one in topic.partitions
            }

        return await self.ask_leaders(before, ask, timeout_ms, "DeleteRecords")

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, tuple[ProducerState, ...]]:
        """The producers that partitions remember, as their leaders or as one broker knows them."""

        async def ask(
            connection: BrokerConnection, some: list[TopicPartition]
        ) -> Mapping[TopicPartition, tuple[ProducerState, ...] | KafkaError]:
            request = DescribeProducersRequest(
                topics=[
                    DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=numbers)
                    for topic, numbers in by_topic(some).items()
                ]
            )
            answer = await connection.ask(request, DescribeProducersResponse)
            return {
                TopicPartition(topic.name, one.partition_index): outcome(
                    one.error_code, one.error_message, tuple(map(_producer, one.active_producers))
                )
                for topic in answer.topics
                for one in topic.partitions
            }

        if broker_id is None:
            return await self.ask_leaders(partitions, ask, timeout_ms, "DescribeProducers")
        return Outcomes(await self._from_broker(broker_id, list(partitions), ask))


def _check_possible(connection: BrokerConnection, time: OffsetSpec | int) -> None:
    """An old broker takes a special time that it does not know for an ordinary one."""
    needed = _FIRST_VERSIONS.get(OffsetSpec(time), 0) if int(time) in _FIRST_VERSIONS else 0
    if needed and connection.version_for(ListOffsetsRequest.schema.key or 0) < needed:
        raise UnsupportedVersionError(f"the broker cannot look up the offset {OffsetSpec(time).name}")


def _producer(told: DescribeProducersResponse.ProducerState) -> ProducerState:
    return ProducerState(
        told.producer_id,
        told.producer_epoch,
        told.last_sequence,
        told.last_timestamp,
        told.coordinator_epoch,
        told.current_txn_start_offset,
    )
