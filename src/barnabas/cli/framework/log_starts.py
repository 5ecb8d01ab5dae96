"""Where logs start, for whoever counts a lag: what was deleted can be read by nobody."""

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
    """Only of partitions that somebody is behind in: the lag of the others is 0 wherever their logs start."""
    from barnabas.client.admin.records import OffsetSpec

    behind = {where for where, offset in read_to if where in ends and offset < ends[where]}
    if not behind:
        return {}
    found = admin.list_offsets(dict.fromkeys(sorted(behind), OffsetSpec.EARLIEST), timeout_ms=timeout_ms)
    return {where: one.offset for where, one in found.values_by_key.items()}
