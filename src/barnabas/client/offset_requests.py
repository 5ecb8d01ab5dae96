"""Requests about committed offsets, shared by the consumer, the producer and the admin client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from barnabas.base.errors import KafkaError
from barnabas.client.errors.base import error_for
from barnabas.client.model import NO_EPOCH, OffsetAndMetadata, TopicPartition, by_topic
from barnabas.client.outcomes import Outcomes
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

Committed = Outcomes[TopicPartition, OffsetAndMetadata | None]


def offset_commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    generation_or_epoch: int = NO_EPOCH,
    member_id: str = "",
    group_instance_id: str | None = None,
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_or_epoch,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=[
            OffsetCommitRequest.Topic(
                name=topic,
                partitions=[_committed(number, offsets[TopicPartition(topic, number)]) for number in numbers],
            )
            for topic, numbers in by_topic(offsets).items()
        ],
    )


def _committed(number: int, offset: OffsetAndMetadata) -> OffsetCommitRequest.Partition:
    return OffsetCommitRequest.Partition(
        partition_index=number,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def offset_fetch_request(
    groups: Mapping[str, Sequence[TopicPartition] | None],
    require_stable: bool,
    *,
    batched: bool = True,
    member_id: str | None = None,
    member_epoch: int = NO_EPOCH,
) -> OffsetFetchRequest:
    """Build a request for several groups (version 8 and later), or for one group if not `batched`."""
    if not batched:
        ((group_id, partitions),) = groups.items()
        return OffsetFetchRequest(
            group_id=group_id,
            topics=None
            if partitions is None
            else [
                OffsetFetchRequest.Topic(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(partitions).items()
            ],
            require_stable=require_stable,
        )
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequest.Group(
                group_id=group_id,
                member_id=member_id,
                member_epoch=member_epoch,
                topics=None
                if partitions is None
                else [
                    OffsetFetchRequest.Topics(name=topic, partition_indexes=numbers)
                    for topic, numbers in by_topic(partitions).items()
                ],
            )
            for group_id, partitions in groups.items()
        ],
        require_stable=require_stable,
    )


def fetched_offsets(
    response: OffsetFetchResponse, only_group: str | None
) -> dict[str, Committed | KafkaError]:
    """Return offsets by group; responses before version 8 do not name the group, so the caller does."""
    if only_group is not None:
        if response.error_code:
            return {only_group: error_for(response.error_code)}
        return {only_group: _offsets(response.topics)}
    return {
        group.group_id: error_for(group.error_code) if group.error_code else _offsets(group.topics)
        for group in response.groups
    }


def _offsets(topics: Iterable[OffsetFetchResponse.Topic | OffsetFetchResponse.Topics]) -> Committed:
    results: dict[TopicPartition, OffsetAndMetadata | KafkaError | None] = {}
    for topic in topics:
        for committed in topic.partitions:
            partition = TopicPartition(topic.name, committed.partition_index)
            if committed.error_code:
                results[partition] = error_for(committed.error_code)
            elif committed.committed_offset < 0:
                results[partition] = None
            else:
                results[partition] = OffsetAndMetadata(
                    committed.committed_offset, committed.committed_leader_epoch, committed.metadata or ""
                )
    return Outcomes(results)
