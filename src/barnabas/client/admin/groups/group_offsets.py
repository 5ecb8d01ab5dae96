"""Offsets of groups: committed ones of consumer groups, start offsets of share groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from barnabas.base.errors import KafkaError
from barnabas.client.admin.calls import AdminCalls, outcome
from barnabas.client.admin.groups.group_model import ShareGroupOffset
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.cluster import CoordinatorType
from barnabas.client.errors.kinds import error_for
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
        """What groups have committed, for these partitions or (None) for all; None where there is nothing."""
        wanted: Mapping[str, Sequence[TopicPartition] | None] = (
            {groups: None} if isinstance(groups, str) else groups
        )

        async def ask(connection: BrokerConnection, some: list[str]) -> Mapping[str, Committed | KafkaError]:
            key = OffsetFetchRequest.schema.key or 0
            if connection.version_for(key) >= 8:
                request = offset_fetch_request({group: wanted[group] for group in some}, require_stable)
                return fetched_offsets(await connection.ask(request, OffsetFetchResponse), None)
            found: dict[str, Committed | KafkaError] = {}
            for group in some:
                one = offset_fetch_request({group: wanted[group]}, require_stable, batched=False)
                found.update(fetched_offsets(await connection.ask(one, OffsetFetchResponse), group))
            return found

        return await self._through_coordinators(wanted, _GROUP, ask, timeout_ms, "OffsetFetch")

    # The same request serves groups of every kind that commits.
    list_streams_group_offsets = list_consumer_group_offsets

    async def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Set committed offsets of a group that has no members."""

        async def ask(
            connection: BrokerConnection, _: list[str]
        ) -> Mapping[str, Outcomes[TopicPartition, None] | KafkaError]:
            answer = await connection.ask(offset_commit_request(group_id, offsets), OffsetCommitResponse)
            told = {
                TopicPartition(topic.name, one.partition_index): outcome(one.error_code, None, None)
                for topic in answer.topics
                for one in topic.partitions
            }
            return {group_id: _moved(told) or Outcomes(told)}

        return (await self._through_coordinators([group_id], _GROUP, ask, timeout_ms, "OffsetCommit"))[
            group_id
        ]

    alter_streams_group_offsets = alter_consumer_group_offsets

    async def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartition, None]:
        """Forget committed offsets of partitions that no member is subscribed to."""
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

        async def ask(
            connection: BrokerConnection, _: list[str]
        ) -> Mapping[str, Outcomes[TopicPartition, None] | KafkaError]:
            answer = await connection.ask(request, OffsetDeleteResponse)
            if answer.error_code:
                return {group_id: error_for(answer.error_code)}
            told = {
                TopicPartition(topic.name, one.partition_index): outcome(one.error_code, None, None)
                for topic in answer.topics
                for one in topic.partitions
            }
            return {group_id: Outcomes(told)}

        return (await self._through_coordinators([group_id], _GROUP, ask, timeout_ms, "OffsetDelete"))[
            group_id
        ]

    delete_streams_group_offsets = delete_consumer_group_offsets

    # ------------------------------------------------------------------------------------------ share groups

    async def list_share_group_offsets(
        self,
        groups: Mapping[str, Sequence[TopicPartition] | None],
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, ShareStart]:
        """Where share groups start, in these partitions or (None) in all."""

        async def ask(connection: BrokerConnection, some: list[str]) -> Mapping[str, ShareStart | KafkaError]:
            request = DescribeShareGroupOffsetsRequest(
                groups=[_share_group(one, groups[one]) for one in some]
            )
            answer = await connection.ask(request, DescribeShareGroupOffsetsResponse)
            return {
                one.group_id: error_for(one.error_code, one.error_message)
                if one.error_code
                else _share_starts(one)
                for one in answer.groups
            }

        return await self._through_coordinators(groups, _GROUP, ask, timeout_ms, "DescribeShareGroupOffsets")

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartition, None]:
        """Set where an empty share group starts."""
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

        async def ask(
            connection: BrokerConnection, _: list[str]
        ) -> Mapping[str, Outcomes[TopicPartition, None] | KafkaError]:
            answer = await connection.ask(request, AlterShareGroupOffsetsResponse)
            if answer.error_code:
                return {group_id: error_for(answer.error_code, answer.error_message)}
            told = {
                TopicPartition(topic.topic_name, one.partition_index): outcome(
                    one.error_code, one.error_message, None
                )
                for topic in answer.responses
                for one in topic.partitions
            }
            return {group_id: Outcomes(told)}

        what = "AlterShareGroupOffsets"
        return (await self._through_coordinators([group_id], _GROUP, ask, timeout_ms, what))[group_id]

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, None]:
        """Let a share group forget topics."""
        request = DeleteShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[DeleteShareGroupOffsetsRequest.Topic(topic_name=topic) for topic in topics],
        )

        async def ask(
            connection: BrokerConnection, _: list[str]
        ) -> Mapping[str, Outcomes[str, None] | KafkaError]:
            answer = await connection.ask(request, DeleteShareGroupOffsetsResponse)
            if answer.error_code:
                return {group_id: error_for(answer.error_code, answer.error_message)}
            told = {
                one.topic_name: outcome(one.error_code, one.error_message, None) for one in answer.responses
            }
            return {group_id: Outcomes(told)}

        what = "DeleteShareGroupOffsets"
        return (await self._through_coordinators([group_id], _GROUP, ask, timeout_ms, what))[group_id]


def _moved(told: Mapping[TopicPartition, KafkaError | None]) -> KafkaError | None:
    """An error that all partitions share is one of the group: its coordinator has moved, say."""
    errors = {error.code: error for error in told.values() if error is not None}
    return next(iter(errors.values())) if len(errors) == 1 and None not in told.values() else None


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


def _share_starts(told: DescribeShareGroupOffsetsResponse.Group) -> ShareStart:
    return Outcomes(
        {
            TopicPartition(topic.topic_name, one.partition_index): outcome(
                one.error_code,
                one.error_message,
                ShareGroupOffset(one.start_offset, one.leader_epoch) if one.start_offset >= 0 else None,
            )
            for topic in told.topics
            for one in topic.partitions
        }
    )
