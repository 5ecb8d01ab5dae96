"""OffsetFetch: committed offsets of a group.

Mapping topic ids to names belongs in the handler.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.coordinator.decision import Decision
from barnabas.coordinator.group.offsets.values import NO_LEADER_EPOCH, Committed, unpack
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

if TYPE_CHECKING:
    from barnabas.coordinator.group.offsets.offsets import Offsets

NO_OFFSET = -1

Partition = OffsetFetchResponse.Partitions
Topic = OffsetFetchResponse.Topics


def fetch(
    offsets: Offsets, request: OffsetFetchRequest.Group, *, require_stable: bool
) -> Decision[OffsetFetchResponse.Group]:
    """The offsets of the requested topics; null requests all."""
    group_id = request.group_id
    exists = _can_fetch(offsets, request)
    topics: list[Topic] = []
    if request.topics is not None:
        for topic in request.topics:
            indexes = topic.partition_indexes
            topics.append(
                _topic(offsets, group_id, topic.name, topic.topic_id, indexes, require_stable, exists)
            )
    elif exists:
        for name, partitions in offsets.store.of_group(group_id).items():
            topics.append(_topic(offsets, group_id, name, ZERO_UUID, partitions, require_stable, exists))
    return Decision((), OffsetFetchResponse.Group(group_id=group_id, topics=topics))


def _can_fetch(offsets: Offsets, request: OffsetFetchRequest.Group) -> bool:
    """Whether the group exists.  Fetching offsets of a missing group is not an error."""
    group = offsets.machine.table.get(request.group_id)
    if group is None:
        return False
    try:
        group.validate_offset_fetch(request.member_id, request.member_epoch)
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return False
        raise
    return True


def _topic(
    offsets: Offsets,
    group_id: str,
    name: str,
    topic_id: Uuid,
    partitions: Collection[int],
    require_stable: bool,
    exists: bool,
) -> Topic:
    store = offsets.store
    known = store.of_group(group_id).get(name, {}) if exists else {}
    check_pending = require_stable and store.has_pending(group_id)
    # A partition that is requested more than once has one result.
    results: dict[int, Partition] = {}
    for partition in dict.fromkeys(partitions):
        if check_pending and store.is_pending(group_id, name, partition):
            results[partition] = nothing(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            continue
        value = known.get(partition)
        committed = None if value is None else unpack(value)
        if committed is None or _belongs_to_other_topic(committed, topic_id):
            results[partition] = nothing(partition, ErrorCode.NONE)
        else:
            results[partition] = Partition(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                error_code=0,
            )
    return Topic(name=name, topic_id=topic_id, partitions=[results[partition] for partition in partitions])


def _belongs_to_other_topic(committed: Committed, topic_id: Uuid) -> bool:
    """Whether the offset was committed for a deleted topic of the same name; unknown without ids."""
    return committed.topic_id not in (ZERO_UUID, topic_id) and topic_id != ZERO_UUID


def nothing(partition: int, code: ErrorCode) -> Partition:
    """A result without an offset, with this error or because there is none."""
    return Partition(
        partition_index=partition,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=NO_LEADER_EPOCH,
        metadata="",
        error_code=code,
    )
