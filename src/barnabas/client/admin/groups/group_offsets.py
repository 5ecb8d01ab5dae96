"""Offsets of groups: committed offsets of consumer groups, start offsets of share groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from barnabas.base.errors import KafkaError
from barnabas.client.admin.calls import AdminCalls, outcome
from barnabas.client.admin.groups.group_model import ShareGroupOffset
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.cluster import CoordinatorType
from barnabas.client.errors.base import error_for
from barnabas.client.model import OffsetAndMetadata, TopicPartition, by_topic
from barnabas.client.offset_requests import (
    fetched_offsets,
    offset_commit_request,
    offset_fetch_request,
)
from barnabas.client.outcomes import Outcomes
from barnabas.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from barnabas.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from barnabas.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from barnabas.protocol.messages.offset_commit import OffsetCommitResponse
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

_GROUP = CoordinatorType.GROUP
Committed = Outcomes[TopicPartition, OffsetAndMetadata | None]
ShareStart = Outcomes[TopicPartition, ShareGroupOffset | None]


class GroupOffsetCalls(AdminCalls):
    async def list_consumer_group_offsets(
        self,
        groups: Mapping[str, Sequence[TopicPartition] | None] | str,
        *,
        require_stable: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, Committed]:
        """Return committed offsets of groups, for these partitions or (None) for all; None if there is
        none."""
        wanted: Mapping[str, Sequence[TopicPartition] | None] = (
            {groups: None} if isinstance(groups, str) else groups
        )

        async def send(
            connection: BrokerConnection, requested: list[str]
        ) -> Mapping[str, Committed | KafkaError]:
            key = OffsetFetchRequest.schema.key or 0
            if connection.version_for(key) >= 8:
                request = offset_fetch_request({group: wanted[group] for group in requested}, require_stable)
                return fetched_offsets(await connection.send(request, OffsetFetchResponse), None)
            results: dict[str, Committed | KafkaError] = {}
            for group in requested:
                group_request = offset_fetch_request({group: wanted[group]}, require_stable, batched=False)
                results.update(
                    fetched_offsets(await connection.send(group_request, OffsetFetchResponse), group)
                )
            return results

        return await self._through_coordinators(wanted, _GROUP, send, timeout_ms, "OffsetFetch")

    # The same request serves every type of group that commits offsets.
    list_streams_group_offsets = list_consumer_group_offsets

    async def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Set committed offsets of a group without members."""

        async def send(
            connection: BrokerConnection, _: list[str]
        ) -> Mapping[str, Outcomes[TopicPartition, None] | KafkaError]:
            response = await connection.send(offset_commit_request(group_id, offsets), OffsetCommitResponse)
            outcomes = {
                TopicPartition(topic.name, partition.partition_index): outcome(
                    partition.error_code, None, None
                )
                for topic in response.topics
                for partition in topic.partitions
            }
            return {group_id: _moved(outcomes) or Outcomes(outcomes)}

        return (await self._through_coordinators([group_id], _GROUP, send, timeout_ms, "OffsetCommit"))[
            group_id
        ]

    alter_streams_group_offsets = alter_consumer_group_offsets

    async def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartition, None]:
        """Delete committed offsets of partitions that no member is subscribed to."""
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequest.Topic(
                    name=topic,
                    partitions=[OffsetDeleteRequest.Partition(partition_index=number) for number in numbers],
                )
                for topic, numbers in by_topic(partitions).items()
            ],
        )

        async def send(
            connection: BrokerConnection, _: list[str]
        ) -> Mapping[str, Outcomes[TopicPartition, None] | KafkaError]:
            response = await connection.send(request, OffsetDeleteResponse)
            if response.error_code:
                return {group_id: error_for(response.error_code)}
            outcomes = {
                TopicPartition(topic.name, partition.partition_index): outcome(
                    partition.error_code, None, None
                )
                for topic in response.topics
                for partition in topic.partitions
            }
            return {group_id: Outcomes(outcomes)}

        return (await self._through_coordinators([group_id], _GROUP, send, timeout_ms, "OffsetDelete"))[
            group_id
        ]

    delete_streams_group_offsets = delete_consumer_group_offsets

    # ------------------------------------------------------------------------------------------- share groups

    async def list_share_group_offsets(
        self,
        groups: Mapping[str, Sequence[TopicPartition] | None],
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, ShareStart]:
        """Return the start offsets of share groups, for these partitions or (None) for all."""

        async def send(
            connection: BrokerConnection, requested: list[str]
        ) -> Mapping[str, ShareStart | KafkaError]:
            request = DescribeShareGroupOffsetsRequest(
                groups=[_share_group(group, groups[group]) for group in requested]
            )
            response = await connection.send(request, DescribeShareGroupOffsetsResponse)
            return {
                group.group_id: error_for(group.error_code, group.error_message)
                if group.error_code
                else _share_starts(group)
                for group in response.groups
            }

        return await self._through_coordinators(groups, _GROUP, send, timeout_ms, "DescribeShareGroupOffsets")

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartition, None]:
        """Set the start offsets of an empty share group."""
        request = AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[
                AlterShareGroupOffsetsRequest.Topic(
                    topic_name=topic,
                    partitions=[
                        AlterShareGroupOffsetsRequest.Partition(
                            partition_index=number, start_offset=offsets[TopicPartition(topic, number)]
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(offsets).items()
            ],
        )

        async def send(
            connection: BrokerConnection, _: list[str]
        ) -> Mapping[str, Outcomes[TopicPartition, None] | KafkaError]:
            response = await connection.send(request, AlterShareGroupOffsetsResponse)
            if response.error_code:
                return {group_id: error_for(response.error_code, response.error_message)}
            outcomes = {
                TopicPartition(topic.topic_name, partition.partition_index): outcome(
                    partition.error_code, partition.error_message, None
                )
                for topic in response.responses
                for partition in topic.partitions
            }
            return {group_id: Outcomes(outcomes)}

        api_name = "AlterShareGroupOffsets"
        return (await self._through_coordinators([group_id], _GROUP, send, timeout_ms, api_name))[group_id]

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, None]:
        """Delete a share group's offsets for topics."""
        request = DeleteShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[DeleteShareGroupOffsetsRequest.Topic(topic_name=topic) for topic in topics],
        )

        async def send(
            connection: BrokerConnection, _: list[str]
        ) -> Mapping[str, Outcomes[str, None] | KafkaError]:
            response = await connection.send(request, DeleteShareGroupOffsetsResponse)
            if response.error_code:
                return {group_id: error_for(response.error_code, response.error_message)}
            outcomes = {
                result.topic_name: outcome(result.error_code, result.error_message, None)
                for result in response.responses
            }
            return {group_id: Outcomes(outcomes)}

        api_name = "DeleteShareGroupOffsets"
        return (await self._through_coordinators([group_id], _GROUP, send, timeout_ms, api_name))[group_id]


def _moved(outcomes: Mapping[TopicPartition, KafkaError | None]) -> KafkaError | None:
    """Return the error of the group (its coordinator has moved, for example) if all partitions share it."""
    errors = {error.code: error for error in outcomes.values() if error is not None}
    return next(iter(errors.values())) if len(errors) == 1 and None not in outcomes.values() else None


def _share_group(
    group_id: str, partitions: Sequence[TopicPartition] | None
) -> DescribeShareGroupOffsetsRequest.Group:
    topics = None
    if partitions is not None:
        topics = [
            DescribeShareGroupOffsetsRequest.Topic(topic_name=topic, partitions=numbers)
            for topic, numbers in by_topic(partitions).items()
        ]
    return DescribeShareGroupOffsetsRequest.Group(group_id=group_id, topics=topics)


def _share_starts(group: DescribeShareGroupOffsetsResponse.Group) -> ShareStart:
    return Outcomes(
        {
            TopicPartition(topic.topic_name, partition.partition_index): outcome(
                partition.error_code,
                partition.error_message,
                ShareGroupOffset(partition.start_offset, partition.leader_epoch)
                if partition.start_offset >= 0
                else None,
            )
            for topic in group.topics
            for partition in topic.partitions
        }
    )
