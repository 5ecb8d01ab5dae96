"""Leader elections and partition reassignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from barnabas.base.errors import KafkaError
from barnabas.client.admin.calls import AdminCalls, outcome
from barnabas.client.errors.base import check
from barnabas.client.model import TopicPartition, by_topic
from barnabas.client.outcomes import Outcomes
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


class ElectionType(IntEnum):
    """PREFERRED elects the preferred replica if it is in sync, UNCLEAN any live one, even if records are
    lost."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment in progress."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class ReassignmentCalls(AdminCalls):
    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Elect the leaders of these partitions, or of all that need an election."""
        topics = None
        if partitions is not None:
            topics = [
                ElectLeadersRequest.TopicPartitions(topic=topic, partitions=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]
        request = ElectLeadersRequest(
            election_type=election_type,
            topic_partitions=topics,
            timeout_ms=self._deadline(timeout_ms).left_ms,
        )
        response = await self._send_to_controller(
            request, ElectLeadersResponse, timeout_ms, lambda response: check(response.error_code)
        )
        return Outcomes(
            {
                TopicPartition(topic.topic, result.partition_id): outcome(
                    result.error_code, result.error_message, None
                )
                for topic in response.replica_election_results
                for result in topic.partition_result
            }
        )

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Reassign partitions to these replicas; None cancels a reassignment in progress."""
        limit_ms = self._deadline(timeout_ms).left_ms

        def request(requested: list[TopicPartition]) -> AlterPartitionReassignmentsRequest:
            return AlterPartitionReassignmentsRequest(
                timeout_ms=limit_ms,
                allow_replication_factor_change=allow_replication_factor_change,
                topics=[
                    AlterPartitionReassignmentsRequest.ReassignableTopic(
                        name=topic,
                        partitions=[
                            _target(number, targets[TopicPartition(topic, number)]) for number in numbers
                        ],
                    )
                    for topic, numbers in by_topic(requested).items()
                ],
            )

        def read(
            response: AlterPartitionReassignmentsResponse, _: list[TopicPartition]
        ) -> Mapping[TopicPartition, KafkaError | None]:
            check(response.error_code, response.error_message)
            return {
                TopicPartition(topic.name, partition.partition_index): outcome(
                    partition.error_code, partition.error_message, None
                )
                for topic in response.responses
                for partition in topic.partitions
            }

        return await self._through_controller(
            targets, request, AlterPartitionReassignmentsResponse, read, timeout_ms
        )

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """List the reassignments in progress, of these partitions or of all."""
        topics = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsRequest.Topics(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]
        request = ListPartitionReassignmentsRequest(
            timeout_ms=self._deadline(timeout_ms).left_ms, topics=topics
        )
        response = await self._send_to_controller(
            request,
            ListPartitionReassignmentsResponse,
            timeout_ms,
            lambda result: check(result.error_code, result.error_message),
        )
        return {
            TopicPartition(topic.name, partition.partition_index): Reassignment(
                tuple(partition.replicas),
                tuple(partition.adding_replicas),
                tuple(partition.removing_replicas),
            )
            for topic in response.topics
            for partition in topic.partitions
        }


def _target(
    number: int, replicas: Sequence[int] | None
) -> AlterPartitionReassignmentsRequest.ReassignablePartition:
    return AlterPartitionReassignmentsRequest.ReassignablePartition(
        partition_index=number, replicas=None if replicas is None else list(replicas)
    )
