"""Requests about a transaction's partitions and offsets, and checks of their responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.base.errors import ErrorCode
from barnabas.client.errors.base import check
from barnabas.client.errors.local import CommitFailedError
from barnabas.client.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition, by_topic
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

_MEMBERSHIP_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


def add_partitions_request(
    transactional_id: str, identity: tuple[int, int], partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity[0],
        v3_and_below_producer_epoch=identity[1],
        v3_and_below_topics=[
            AddPartitionsToTxnRequest.Topic(name=topic, partitions=numbers)
            for topic, numbers in by_topic(partitions).items()
        ],
    )


def check_added(response: AddPartitionsToTxnResponse) -> None:
    """Raise the first significant error: OPERATION_NOT_ATTEMPTED only follows from others."""
    codes = [
        result.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    ]
    for code in sorted(codes, key=lambda each: each == ErrorCode.OPERATION_NOT_ATTEMPTED):
        check(code)


def txn_offset_commit_request(
    transactional_id: str,
    identity: tuple[int, int],
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    group: ConsumerGroupMetadata,
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity[0],
        producer_epoch=identity[1],
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[
            TxnOffsetCommitRequest.Topic(
                name=topic,
                partitions=[_committed(number, offsets[TopicPartition(topic, number)]) for number in numbers],
            )
            for topic, numbers in by_topic(offsets).items()
        ],
    )


def _committed(number: int, offset: OffsetAndMetadata) -> TxnOffsetCommitRequest.Partition:
    return TxnOffsetCommitRequest.Partition(
        partition_index=number,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def check_committed(response: TxnOffsetCommitResponse) -> None:
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code in _MEMBERSHIP_LOST:
                raise CommitFailedError(f"the group has rebalanced: {ErrorCode(partition.error_code).name}")
            check(partition.error_code)
