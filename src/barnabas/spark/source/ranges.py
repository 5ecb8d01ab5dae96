"""Dividing offset ranges into tasks, and limits among partitions, as Spark's own connector does."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from barnabas.client.model import TopicPartition
from barnabas.spark.source.offsets import PartitionOffsets

# Up to here each range is a task of its own, as with Spark's own connector.
MOST_TASKS = 64
# Records of a range that may share a task.
SMALL = 20_000


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """From `start` up to, but not including, `end`.

    `from_earliest`: the start was requested as the beginning of the partition, so if that has moved since,
    reading starts at the current beginning and nothing was lost.
    """

    topic_partition: TopicPartition
    start: int
    end: int
    from_earliest: bool = False

    @property
    def size(self) -> int:
        """The maximum number of records: compaction and transactions leave gaps."""
        return self.end - self.start


def cut(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Create a task per partition with records; more if the options require it."""
    wanted = sorted(
        (offset_range for offset_range in ranges if offset_range.size > 0),
        key=lambda each: each.topic_partition,
    )
    if max_records is not None:
        wanted = [part for large in wanted for part in _divide(large, math.ceil(large.size / max_records))]
    if min_partitions is None or len(wanted) >= min_partitions:
        return wanted
    total = sum(offset_range.size for offset_range in wanted)
    # Small ranges stay whole; the large ones share the remaining tasks by size.
    whole = [offset_range for offset_range in wanted if _share(offset_range.size, total, min_partitions) == 1]
    whole_partitions = {offset_range.topic_partition for offset_range in whole}
    rest_total = total - sum(offset_range.size for offset_range in whole)
    rest_tasks = max(min_partitions - len(whole), 1)
    divided: list[OffsetRange] = []
    for offset_range in wanted:
        is_whole = offset_range.topic_partition in whole_partitions
        divided += _divide(offset_range, 1 if is_whole else _share(offset_range.size, rest_total, rest_tasks))
    return [offset_range for offset_range in divided if offset_range.size > 0]


def packed(ranges: list[OffsetRange], most: int = MOST_TASKS) -> list[tuple[OffsetRange, ...]]:
    """Group the ranges into tasks.  A task costs Spark tens of milliseconds, however little it reads: of more
    than `most` ranges the small ones share tasks."""
    if len(ranges) <= most:
        return [(each,) for each in ranges]
    large = [each for each in ranges if each.size > SMALL]
    small = [each for each in ranges if each.size <= SMALL]
    least = sum(each.size for each in small) / most
    tasks: list[tuple[OffsetRange, ...]] = [(each,) for each in large]
    pack: list[OffsetRange] = []
    for each in small:
        pack.append(each)
        if sum(part.size for part in pack) >= least:
            tasks.append(tuple(pack))
            pack = []
    if pack:
        tasks.append(tuple(pack))
    return tasks


def _share(size: int, total: int, tasks: int) -> int:
    # Rounded half up, as in Java.
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
    """Return the end of a batch of about `limit` records, shared in proportion to what each partition has.

    `start` has every partition whose beginning is known; others are read to their end.
    """
    sizes = {partition: end[partition] - start[partition] for partition in end if partition in start}
    sizes = {partition: size for partition, size in sizes.items() if size > 0}
    total = sum(sizes.values())
    if total < 1:
        return end
    ends = dict(end)
    for partition, size in sizes.items():
        part = limit * (size / total)
        # A small partition must not starve beside large ones.
        taken = math.ceil(part) if part < 1 else math.floor(part)
        ends[partition] = min(end[partition], start[partition] + taken)
    return ends
