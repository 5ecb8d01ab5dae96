"""Offsets by time, deletion of records, and the active producers of partitions."""

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
    """Special timestamps of ListOffsets; a plain number is a timestamp in milliseconds."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class IsolationLevel(IntEnum):
    """Whether LATEST is the end of the log or the last stable offset."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


# The first version of ListOffsets that supports a special timestamp.
_FIRST_VERSIONS = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset with the timestamp of its record; -1 if there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ProducerState:
    """An active producer of a partition; unknown fields are -1."""

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
        """Return an offset of each partition: the earliest, the latest, or by timestamp."""

        async def send(
            connection: BrokerConnection, requested: list[TopicPartition]
        ) -> Mapping[TopicPartition, ListedOffset | KafkaError]:
            for partition in requested:
                _check_possible(connection, partitions[partition])
            request = self._offsets_request(requested, partitions, isolation_level, timeout_ms)
            response = await connection.send(request, ListOffsetsResponse)
            return {
                TopicPartition(topic.name, partition.partition_index): outcome(
                    partition.error_code,
                    None,
                    ListedOffset(partition.offset, partition.timestamp, partition.leader_epoch),
                )
                for topic in response.topics
                for partition in topic.partitions
            }

        return await self.send_to_leaders(partitions, send, timeout_ms, "ListOffsets")

    def _offsets_request(
        self,
        requested: list[TopicPartition],
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
                for topic, numbers in by_topic(requested).items()
            ],
            timeout_ms=self._deadline(timeout_ms).left_ms,
        )

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartition, int]:
        """Delete the records below an offset (-1 for all); returns the new log start offsets."""
        limit_ms = self._deadline(timeout_ms).left_ms

        async def send(
            connection: BrokerConnection, requested: list[TopicPartition]
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
                    for topic, numbers in by_topic(requested).items()
                ],
                timeout_ms=limit_ms,
            )
            response = await connection.send(request, DeleteRecordsResponse)
            return {
                TopicPartition(topic.name, partition.partition_index): outcome(
                    partition.error_code, None, partition.low_watermark
                )
                for topic in response.topics
                for partition in topic.partitions
            }

        return await self.send_to_leaders(before, send, timeout_ms, "DeleteRecords")

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, tuple[ProducerState, ...]]:
        """Return the active producers of partitions, as known by their leaders or by one broker."""

        async def send(
            connection: BrokerConnection, requested: list[TopicPartition]
        ) -> Mapping[TopicPartition, tuple[ProducerState, ...] | KafkaError]:
            request = DescribeProducersRequest(
                topics=[
                    DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=numbers)
                    for topic, numbers in by_topic(requested).items()
                ]
            )
            response = await connection.send(request, DescribeProducersResponse)
            return {
                TopicPartition(topic.name, partition.partition_index): outcome(
                    partition.error_code,
                    partition.error_message,
                    tuple(map(_producer, partition.active_producers)),
                )
                for topic in response.topics
                for partition in topic.partitions
            }

        if broker_id is None:
            return await self.send_to_leaders(partitions, send, timeout_ms, "DescribeProducers")
        return Outcomes(await self._from_broker(broker_id, list(partitions), send))


def _check_possible(connection: BrokerConnection, time: OffsetSpec | int) -> None:
    """Raise if the broker would take a special timestamp that it does not know for an ordinary one."""
    needed = _FIRST_VERSIONS.get(OffsetSpec(time), 0) if int(time) in _FIRST_VERSIONS else 0
    if needed and connection.version_for(ListOffsetsRequest.schema.key or 0) < needed:
        raise UnsupportedVersionError(f"the broker cannot look up the offset {OffsetSpec(time).name}")


def _producer(producer: DescribeProducersResponse.ProducerState) -> ProducerState:
    return ProducerState(
        producer.producer_id,
        producer.producer_epoch,
        producer.last_sequence,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.current_txn_start_offset,
    )
