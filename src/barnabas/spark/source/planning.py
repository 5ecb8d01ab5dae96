"""Planning: from options and offsets of brokers to ranges of offsets.

Contains where a query starts and ends, and what counts as lost, as in Spark's own connector.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.client.model import TopicPartition
from barnabas.spark.given_options import OptionError
from barnabas.spark.source.loss import LossReport
from barnabas.spark.source.offset_reader import OffsetReader
from barnabas.spark.source.offsets import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTimes,
    Edge,
    Limit,
    PartitionOffsets,
    listed,
)
from barnabas.spark.source.options import SourceOptions
from barnabas.spark.source.ranges import OffsetRange


class Place:
    """The offsets of a limit, and the partitions for which it was a moving bound."""

    __slots__ = ("at_earliest", "at_latest", "offsets")

    def __init__(
        self, offsets: PartitionOffsets, at_earliest: set[TopicPartition], at_latest: set[TopicPartition]
    ) -> None:
        self.offsets = offsets
        self.at_earliest = at_earliest
        self.at_latest = at_latest


def resolve(limit: Limit, reader: OffsetReader, partitions: set[TopicPartition], *, is_start: bool) -> Place:
    """Return the current offsets of a limit."""
    wanted = _wanted(limit, reader, partitions, is_start=is_start)
    at_earliest = {partition for partition, offset in wanted.items() if offset == EARLIEST}
    at_latest = {partition for partition, offset in wanted.items() if offset == LATEST}
    offsets = {**wanted, **reader.earliest(at_earliest)}
    if at_latest:
        offsets.update(reader.latest(at_latest))
    return Place(offsets, at_earliest, at_latest)


def _wanted(
    limit: Limit, reader: OffsetReader, partitions: set[TopicPartition], *, is_start: bool
) -> PartitionOffsets:
    """Return the offset of each partition, with -1 and -2 for its bounds."""
    if limit is Edge.EARLIEST:
        return dict.fromkeys(partitions, EARLIEST)
    if limit is Edge.LATEST:
        return dict.fromkeys(partitions, LATEST)
    if limit is Edge.COMMITTED:
        got = reader.committed(partitions)
        return {partition: EARLIEST if offset is None else offset for partition, offset in got.items()}
    side = "starting" if is_start else "ending"
    if isinstance(limit, AtOffsets):
        _check_complete(f"{side}Offsets", limit.offsets, partitions)
        return dict(limit.offsets)
    assert isinstance(limit, AtTimes)
    if isinstance(limit.times, int):
        times: Mapping[TopicPartition, int] = dict.fromkeys(partitions, limit.times)
    else:
        times = limit.times
        _check_complete(f"{side}OffsetsByTimestamp", times, partitions)
    results: PartitionOffsets = {}
    for partition, offset in reader.at_times(times).items():
        if offset is None and not limit.else_latest:
            raise OptionError(
                f"{partition} has no record of the time {times[partition]} or later to start at; to start "
                "at the end "
                "there, set startingOffsetsByTimestampStrategy to latest"
            )
        results[partition] = LATEST if offset is None else offset
    return results


def _check_complete(
    option: str, given: Iterable[TopicPartition], partitions: Iterable[TopicPartition]
) -> None:
    named, there = set(given), set(partitions)
    if named != there:
        raise OptionError(
            f"option {option} must name every partition, with -1 for latest or -2 for earliest where you do "
            f"not care: it names {listed(named)}, and there are {listed(there)}"
        )


def batch_ranges(options: SourceOptions, reader: OffsetReader) -> list[OffsetRange]:
    """Return what a batch query reads, when it is planned."""
    partitions = reader.partitions()
    if not partitions:
        return []
    start = resolve(options.starting, reader, partitions, is_start=True)
    end = resolve(options.ending, reader, partitions, is_start=False)
    for partition, offset in start.offsets.items():
        # Bounds that were not named explicitly cannot contradict.
        is_named = partition not in end.at_latest and partition not in start.at_earliest
        if is_named and offset > end.offsets[partition]:
            raise OptionError(
                f"the start offset {offset} of {partition} is greater than its end offset "
                f"{end.offsets[partition]}"
            )
    ends = _within_reach(options, reader, start, end)
    return [
        OffsetRange(partition, start.offsets[partition], ends[partition], partition in start.at_earliest)
        for partition in sorted(partitions)
    ]


def _within_reach(options: SourceOptions, reader: OffsetReader, start: Place, end: Place) -> PartitionOffsets:
    """Report offsets past the end of a partition now, not after a task has waited for them in vain."""
    named = [partition for partition in end.offsets if partition not in end.at_latest]
    beyond_start = [partition for partition in start.offsets if partition not in start.at_earliest]
    if not named and not beyond_start:
        return end.offsets
    latest = {**end.offsets, **reader.latest(named)}
    report = LossReport(options.fail_on_data_loss)
    ends = dict(end.offsets)
    for partition, offset in end.offsets.items():
        start_offset = start.offsets[partition]
        if offset > latest[partition]:
            report.lost(f"{partition} ends at offset {latest[partition]}, before the end offset {offset}")
            ends[partition] = latest[partition]
        if start_offset > latest[partition]:
            report.lost(
                f"{partition} ends at offset {latest[partition]}, before the start offset {start_offset}"
            )
            ends[partition] = start_offset
    return ends


def stream_ranges(
    start: PartitionOffsets, end: PartitionOffsets, reader: OffsetReader, report: LossReport
) -> list[OffsetRange]:
    """Return what a micro-batch reads; partitions may have been added or deleted since the last one."""
    new = end.keys() - start.keys()
    there = reader.partitions() if new else set()
    first = reader.earliest(new & there)
    if new - there:
        report.lost(f"{listed(new - there)} can no longer be found, so their beginning is not known")
    for partition, offset in sorted(first.items()):
        if offset:
            report.lost(f"the new partition {partition} begins at offset {offset}, not at 0")
    removed = start.keys() - end.keys()
    if removed:
        report.lost(f"{listed(removed)} were deleted")
    ranges = []
    for partition, until in sorted(end.items()):
        begin = start.get(partition, first.get(partition))
        if begin is None:
            continue
        if until < begin:
            report.lost(f"the end of {partition} went back from offset {begin} to {until}")
        else:
            ranges.append(OffsetRange(partition, begin, until))
    return ranges
