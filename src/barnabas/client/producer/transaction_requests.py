"""Requests about a transaction's partitions and offsets, and their answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.base.errors import ErrorCode
from barnabas.client.errors.kinds import check
from barnabas.client.errors.local import CommitFailedError
from barnabas.client.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition, by_topic
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

_FALLEN_OUT = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


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


def check_added(answer: AddPartitionsToTxnResponse) -> None:
    """Raise the first error that says something: the others only say that they were not tried."""
    codes = [
        one.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for one in topic.results_by_partition
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


def check_committed(answer: TxnOffsetCommitResponse) -> None:
    for topic in answer.topics:
        for one in topic.partitions:
            if one.error_code in _FALLEN_OUT:
                raise CommitFailedError(f"the group has rebalanced: {ErrorCode(one.error_code).name}")
            check(one.error_code)
