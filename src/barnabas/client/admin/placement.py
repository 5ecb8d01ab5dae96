"""Who leads, and where replicas live: elections and reassignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from barnabas.base.errors import KafkaError
from barnabas.client.admin.calls import AdminCalls, outcome
from barnabas.client.errors.kinds import check
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
    """The preferred replica if it is in sync, or any that is alive, whatever is lost."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A move under way."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class PlacementCalls(AdminCalls):
    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Elect the leaders of these partitions, or of all that need it."""
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
        answer = await self._ask_controller(
            request, ElectLeadersResponse, timeout_ms, lambda found: check(found.error_code)
        )
        return Outcomes(
            {
                TopicPartition(topic.topic, one.partition_id): outcome(
                    one.error_code, one.error_message, None
                )
                for topic in answer.replica_election_results
                for one in topic.partition_result
            }
        )

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Move partitions to these replicas; None stops a move that is under way."""
        limit_ms = self._deadline(timeout_ms).left_ms

        def request(some: list[TopicPartition]) -> AlterPartitionReassignmentsRequest:
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
                    for topic, numbers in by_topic(some).items()
                ],
            )

        def read(
            answer: AlterPartitionReassignmentsResponse, _: list[TopicPartition]
        ) -> Mapping[TopicPartition, KafkaError | None]:
            check(answer.error_code, answer.error_message)
            return {
                TopicPartition(topic.name, one.partition_index): outcome(
                    one.error_code, one.error_message, None
                )
                for topic in answer.responses
                for one in topic.partitions
            }

        return await self._through_controller(
            targets, request, AlterPartitionReassignmentsResponse, read, timeout_ms
        )

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The moves under way, of these partitions or of all."""
        topics = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsRequest.Topics(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]
        request = ListPartitionReassignmentsRequest(
            timeout_ms=self._deadline(timeout_ms).left_ms, topics=topics
        )
        answer = await self._ask_controller(
            request,
            ListPartitionReassignmentsResponse,
            timeout_ms,
            lambda found: check(found.error_code, found.error_message),
        )
        return {
            TopicPartition(topic.name, one.partition_index): Reassignment(
                tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
            )
            for topic in answer.topics
            for one in topic.partitions
        }


def _target(
    number: int, replicas: Sequence[int] | None
) -> AlterPartitionReassignmentsRequest.ReassignablePartition:
    return AlterPartitionReassignmentsRequest.ReassignablePartition(
        partition_index=number, replicas=None if replicas is None else list(replicas)
    )
