"""OffsetCommit and TxnOffsetCommit.

Validates the member and builds the entries.  Checking that topics exist belongs in the handlers, applying a
commit in `offsets`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.coordinator.decision import Context, Decision, ProducerStamp
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.offsets.values import NO_TIMESTAMP, value_version
from barnabas.coordinator.group.table import not_found
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from barnabas.protocol.records.group import OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:
    from barnabas.coordinator.group.offsets.offsets import Offsets

# From this version on a missing group has its own error (KIP-848).
GROUP_NOT_FOUND_SINCE = 9
DEFAULT_RETENTION_MS = -1


def commit(
    offsets: Offsets, request: OffsetCommitRequest, version: int, context: Context
) -> Decision[OffsetCommitResponse]:
    """OffsetCommit for existing partitions."""
    group_id = request.group_id
    group = offsets.machine.table.get(group_id)
    if group is not None:
        group.validate_offset_commit(
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            transactional=False,
            api_version=version,
        )
    elif request.generation_id_or_member_epoch >= 0:
        # Without a generation: an admin client or a consumer with manual assignment, so a simple group.
        if version >= GROUP_NOT_FOUND_SINCE:
            raise not_found(group_id)
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    writer = _Writer(group_id, context, request.retention_time_ms)
    response = OffsetCommitResponse(throttle_time_ms=0, topics=[])
    for topic in request.topics:
        results = [
            OffsetCommitResponse.Partition(
                partition_index=partition.partition_index,
                error_code=writer.write(topic.name, partition, topic.topic_id),
            )
            for partition in topic.partitions
        ]
        response.topics.append(
            OffsetCommitResponse.Topic(name=topic.name, topic_id=topic.topic_id, partitions=results)
        )
    entries = writer.entries

    def accepted() -> None:
        if group is not None:
            offsets.machine.classic.offsets_committed(group, request.member_id)
        if entries:
            offsets.machine.events.committed(group_id, context.now_ms, len(entries))

    return Decision(entries, response, accepted)


def commit_in_transaction(
    offsets: Offsets, request: TxnOffsetCommitRequest, version: int, context: Context
) -> Decision[TxnOffsetCommitResponse]:
    """TxnOffsetCommit for existing partitions; the transaction is already verified."""
    group_id = request.group_id
    group = offsets.machine.table.get(group_id)
    if group is None:
        if request.generation_id >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    else:
        try:
            group.validate_offset_commit(
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                transactional=True,
                api_version=version,
            )
        except KafkaError as error:
            # Producers do not know member epochs.
            if error.code is ErrorCode.STALE_MEMBER_EPOCH:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION) from error
            raise
    writer = _Writer(group_id, context, DEFAULT_RETENTION_MS)
    response = TxnOffsetCommitResponse(throttle_time_ms=0, topics=[])
    for topic in request.topics:
        results = [
            TxnOffsetCommitResponse.Partition(
                partition_index=partition.partition_index,
                error_code=writer.write(topic.name, partition, ZERO_UUID),
            )
            for partition in topic.partitions
        ]
        response.topics.append(TxnOffsetCommitResponse.Topic(name=topic.name, partitions=results))
    stamp = ProducerStamp(request.producer_id, request.producer_epoch)

    def accepted() -> None:
        offsets.machine.events.note(
            group_id,
            context.now_ms,
            EventKind.OFFSETS_PENDING,
            who=request.transactional_id,
            count=len(writer.entries),
        )

    return Decision(writer.entries, response, accepted, producer=stamp)


class _Writer:
    """Builds the entries of one commit request."""

    __slots__ = ("_expire_timestamp_ms", "_group_id", "_max_metadata_size", "_now_ms", "_version", "entries")

    def __init__(self, group_id: str, context: Context, retention_ms: int) -> None:
        expires = retention_ms != DEFAULT_RETENTION_MS
        self.entries: list[Entry] = []
        self._group_id = group_id
        self._now_ms = context.now_ms
        self._expire_timestamp_ms = context.now_ms + retention_ms if expires else NO_TIMESTAMP
        self._version = value_version(context.image.metadata_version, expires=expires)
        self._max_metadata_size: int = context.settings["offset.metadata.max.bytes"]

    def write(
        self,
        topic: str,
        partition: OffsetCommitRequest.Partition | TxnOffsetCommitRequest.Partition,
        topic_id: Uuid,
    ) -> ErrorCode:
        metadata = partition.committed_metadata or ""
        if len(metadata) > self._max_metadata_size or _java_length(metadata) > self._max_metadata_size:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        key = OffsetCommitKey(group=self._group_id, topic=topic, partition=partition.partition_index)
        value = OffsetCommitValue(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=metadata,
            commit_timestamp=self._now_ms,
            expire_timestamp=self._expire_timestamp_ms,
            topic_id=topic_id,
        )
        self.entries.append(Entry(key, value, self._version))
        return ErrorCode.NONE


def _java_length(text: str) -> int:
    """Java counts characters outside the basic multilingual plane twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
