"""OffsetDelete (KIP-496).

Checking that topics exist belongs in the handler, expiration in `expiry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.offsets.expiry import tombstone
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from barnabas.coordinator.group.offsets.offsets import Offsets


def delete(
    offsets: Offsets, request: OffsetDeleteRequest, context: Context
) -> Decision[OffsetDeleteResponse]:
    """OffsetDelete for existing partitions, except of topics that the group is subscribed to."""
    group_id = request.group_id
    group = offsets.machine.table.find(group_id)
    group.validate_offset_delete()
    entries: list[Entry] = []
    response = OffsetDeleteResponse(error_code=0, throttle_time_ms=0, topics=[])
    for topic in request.topics:
        is_subscribed = group.is_subscribed_to(topic.name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
        results = []
        for partition in topic.partitions:
            index = partition.partition_index
            results.append(OffsetDeleteResponse.Partition(partition_index=index, error_code=code))
            if not is_subscribed and _is_known(offsets, group_id, topic.name, index):
                entries.append(tombstone(group_id, topic.name, index))
        response.topics.append(OffsetDeleteResponse.Topic(name=topic.name, partitions=results))

    def accepted() -> None:
        if entries:
            offsets.machine.events.note(
                group_id, context.now_ms, EventKind.OFFSETS_DELETED, reason="on request", count=len(entries)
            )

    return Decision(entries, response, accepted)


def _is_known(offsets: Offsets, group_id: str, topic: str, partition: int) -> bool:
    store = offsets.store
    return store.get(group_id, topic, partition) is not None or store.is_pending(group_id, topic, partition)
