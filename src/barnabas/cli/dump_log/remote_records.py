"""The text of the records of tiered storage (KIP-405), as Java's toString prints them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from barnabas.base.errors import KafkaError
from barnabas.base.ids import Uuid
from barnabas.batch.records import Record
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.record_frame import read_metadata_record, remote_log_records
from barnabas.protocol.records.remote_log import (
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
)
from barnabas.protocol.schema import Message

SEGMENT_STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


class _TopicIdPartition(Protocol):
    name: str
    id: Uuid
    partition: int


class _Epoch(Protocol):
    leader_epoch: int
    offset: int


class RemoteDecoder:
    """Records of __remote_log_metadata.  A record that cannot be decoded is reported in its place."""

    def texts(self, record: Record) -> tuple[str | None, str | None]:
        try:
            message, _ = read_metadata_record(record.value or b"", remote_log_records())
            return None, remote_text(message)
        except KafkaError as error:
            return None, f"Error at offset {record.offset}, skipping. {error.message}"


def remote_text(message: Message) -> str:
    match message:
        case RemoteLogSegmentMetadataRecord():
            segment = message.remote_log_segment_id
            return (
                "RemoteLogSegmentMetadata{remoteLogSegmentId="
                f"{_segment(segment.topic_id_partition, segment.id)}"
                f", startOffset={message.start_offset}, endOffset={message.end_offset}"
                f", brokerId={message.broker_id}, maxTimestampMs={message.max_timestamp_ms}"
                f", eventTimestampMs={message.event_timestamp_ms}"
                f", segmentLeaderEpochs={_epochs(message.segment_leader_epochs)}"
                f", segmentSizeInBytes={message.segment_size_in_bytes}"
                f", customMetadata={_custom(message.custom_metadata)}"
                f", state={_state(SEGMENT_STATES, message.remote_log_segment_state)}"
                f", txnIdxEmpty={_bool(message.txn_index_empty)}}}"
            )
        case RemoteLogSegmentMetadataSnapshotRecord():
            return (
                f"RemoteLogSegmentMetadataSnapshot{{segmentId={message.segment_id}"
                f", startOffset={message.start_offset}, endOffset={message.end_offset}"
                f", maxTimestampMs={message.max_timestamp_ms}"
                f", segmentLeaderEpochs={_epochs(message.segment_leader_epochs)}"
                f", segmentSizeInBytes={message.segment_size_in_bytes}"
                f", customMetadata={_custom(message.custom_metadata)}"
                f", state={_state(SEGMENT_STATES, message.remote_log_segment_state)}"
                f", txnIdxEmpty={_bool(message.txn_index_empty)}}}"
            )
        case RemoteLogSegmentMetadataUpdateRecord():
            updated = message.remote_log_segment_id
            return (
                "RemoteLogSegmentMetadataUpdate{remoteLogSegmentId="
                f"{_segment(updated.topic_id_partition, updated.id)}"
                f", customMetadata={_custom(message.custom_metadata)}"
                f", state={_state(SEGMENT_STATES, message.remote_log_segment_state)}"
                f", eventTimestampMs={message.event_timestamp_ms}, brokerId={message.broker_id}}}"
            )
        case RemotePartitionDeleteMetadataRecord():
            return (
                f"RemotePartitionDeleteMetadata{{topicPartition={_partition(message.topic_id_partition)}"
                f", state={_state(PARTITION_STATES, message.remote_partition_delete_state)}"
                f", eventTimestampMs={message.event_timestamp_ms}, brokerId={message.broker_id}}}"
            )
        case _:
            raise TypeError(f"{type(message).__name__} is not a record of tiered storage")


def _segment(partition: _TopicIdPartition, segment_id: Uuid) -> str:
    return f"RemoteLogSegmentId{{topicIdPartition={_partition(partition)}, id={segment_id}}}"


def _partition(partition: _TopicIdPartition) -> str:
    return f"{partition.id}:{partition.name}-{partition.partition}"


def _epochs(epochs: Iterable[_Epoch]) -> str:
    by_epoch = {epoch.leader_epoch: epoch.offset for epoch in epochs}
    return "{" + ", ".join(f"{epoch}={by_epoch[epoch]}" for epoch in sorted(by_epoch)) + "}"


def _custom(data: bytes | None) -> str:
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _state(states: tuple[str, ...], number: int) -> str:
    if not 0 <= number < len(states):
        raise ProtocolError(f"there is no state {number}, the last one is {len(states) - 1}")
    return states[number]


def _bool(value: bool) -> str:
    return "true" if value else "false"
