"""Which offsets one task reads.

What lives here: cutting what is to be read into tasks, and sharing out a limit, as Spark's own connector
does.  What may not: asking a broker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from barnabas.client.model import TopicPartition
from barnabas.spark.source.offsets import PartitionOffsets


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """From `start` up to, but not including, `end`.

    `from_earliest`: the start was asked for as the beginning of the partition, so if that has moved since,
    reading begins where the partition begins now and nothing was lost.
    """

    where: TopicPartition
    start: int
    end: int
    from_earliest: bool = False

    @property
    def size(self) -> int:
        """How many records at most: compaction and transactions leave gaps."""
        return self.end - self.start


def cut(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """A task for each partition that has something to read; more if the options ask for that."""
    found = sorted(
        (offset_range for offset_range in ranges if offset_range.size > 0), key=lambda one: one.where
    )
    if max_records is not None:
        found = [part for one in found for part in _divide(one, math.ceil(one.size / max_records))]
    if min_partitions is None or len(found) >= min_partitions:
        return found
    total = sum(one.size for one in found)
    # Small ones stay whole; the large ones share the rest of the tasks by their size.
    whole = [one for one in found if _share(one.size, total, min_partitions) == 1]
    whole_partitions = {one.where for one in whole}
    rest_total = total - sum(one.size for one in whole)
    rest_tasks = max(min_partitions - len(whole), 1)
    divided: list[OffsetRange] = []
    for one in found:
        is_whole = one.where in whole_partitions
        divided += _divide(one, 1 if is_whole else _share(one.size, rest_total, rest_tasks))
    return [offset_range for offset_range in divided if offset_range.size > 0]


def _share(size: int, total: int, tasks: int) -> int:
    # Halves go up, as in Java.
    return max(math.floor(size / total * tasks + 0.5), 1)


def _divide(offset_range: OffsetRange, parts: int) -> list[OffsetRange]:
    divided: list[OffsetRange] = []
    left, start = offset_range.size, offset_range.start
    for part in range(parts):
        size = left // (parts - part)
        left -= size
        end = min(start + size, offset_range.end)
        divided.append(
            replace(
                offset_range, start=start, end=end, from_earliest=offset_range.from_earliest and not divided
            )
        )
        start = end
    return divided


def share_limit(limit: int, start: Mapping[TopicPartition, int], end: PartitionOffsets) -> PartitionOffsets:
    """The end of a batch of about `limit` records: every partition gives by what it has.

    `start` has every partition whose beginning is known; others go to their end.
    """
    sizes = {partition: end[partition] - start[partition] for partition in end if partition in start}
    sizes = {partition: size for partition, size in sizes.items() if size > 0}
    total = sum(sizes.values())
    if total < 1:
        return end
    found = dict(end)
    for partition, size in sizes.items():
        part = limit * (size / total)
        # A small partition must not starve beside large ones.
        taken = math.ceil(part) if part < 1 else math.floor(part)
        found[partition] = min(end[partition], start[partition] + taken)
    return found
