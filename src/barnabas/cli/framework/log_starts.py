"""Log start offsets for computing a lag: deleted records do not count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.client.model import TopicPartition
    from barnabas.client.sync import Admin


def log_starts(
    admin: Admin,
    read_to: Iterable[tuple[TopicPartition, int]],
    ends: Mapping[TopicPartition, int],
    *,
    timeout_ms: int | None,
) -> dict[TopicPartition, int]:
    """Only for partitions with a lag: for the others the log start offset makes no difference."""
    from barnabas.client.admin.records import OffsetSpec

    behind = {partition for partition, offset in read_to if partition in ends and offset < ends[partition]}
    if not behind:
        return {}
    offsets = admin.list_offsets(dict.fromkeys(sorted(behind), OffsetSpec.EARLIEST), timeout_ms=timeout_ms)
    return {partition: result.offset for partition, result in offsets.values_by_key.items()}
