"""Resolves positions in logs to offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.kafka_errors import exit_code
from barnabas.cli.friendly.framework import refusal
from barnabas.cli.friendly.records.times import AtTime, FromEnd, LogEnd, Position, parse_position
from barnabas.client.admin.records import OffsetSpec
from barnabas.client.errors.base import AuthorizationError, ClientError
from barnabas.client.model import TopicPartition
from barnabas.runtime.clock import SystemClock

if TYPE_CHECKING:
    from barnabas.client.sync import Admin

# The start and end offset of each partition, as consumers see them.
LogRanges = dict[TopicPartition, tuple[int, int]]


def position_option(parser: ArgumentParser, flag: str, text: str) -> Position:
    try:
        return parse_position(text, SystemClock().wall_ms())
    except ValueError as error:
        parser.error(f"{flag}: {error}")


def log_ranges(admin: Admin, partitions: Iterable[TopicPartition]) -> LogRanges:
    """For the partitions whose leaders respond; raises AuthorizationError."""
    requested = list(partitions)
    if not requested:
        return {}
    starts = admin.list_offsets(dict.fromkeys(requested, OffsetSpec.EARLIEST))
    ends = admin.list_offsets(dict.fromkeys(requested, OffsetSpec.LATEST))
    for error in (*starts.errors.values(), *ends.errors.values()):
        if isinstance(error, AuthorizationError):
            raise error
    first, last = starts.values_by_key, ends.values_by_key
    return {
        partition: (first[partition].offset, last[partition].offset)
        for partition in requested
        if partition in first and partition in last
    }


def log_sizes(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The size of the largest replica, as far as brokers report it (requires DESCRIBE on the cluster)."""
    requested = list(partitions)
    if not requested:
        return {}
    brokers = [node.id for node in admin.describe_cluster().nodes]
    sizes: dict[TopicPartition, int] = {}
    try:
        folders = admin.describe_log_dirs(brokers, partitions=requested)
    except ClientError:
        return {}
    for paths in folders.values_by_key.values():
        for folder in paths.values():
            for partition, replica in folder.replicas.items():
                if not replica.is_future:
                    sizes[partition] = max(sizes.get(partition, 0), replica.size_bytes)
    return sizes


def resolve(
    admin: Admin, position: Position, ranges: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    """The offset of a position in each partition; it may lie outside of the log."""
    if isinstance(position, AtTime):
        timestamps = dict.fromkeys(ranges, position.at_ms)
        results = admin.list_offsets(timestamps) if timestamps else {}
        offsets = {partition: results[partition].offset for partition in results}
        return {
            partition: offsets[partition] if offsets[partition] >= 0 else ranges[partition][1]
            for partition in offsets
        }
    return {partition: _offset(position, start, end) for partition, (start, end) in ranges.items()}


def _offset(position: LogEnd | FromEnd | int, start: int, end: int) -> int:
    if isinstance(position, int):
        return position
    if isinstance(position, FromEnd):
        return max(start, end - position.count)
    return start if position is LogEnd.EARLIEST else end


def partitions_of(admin: Admin, topic: str, chosen: Sequence[int] | None) -> list[TopicPartition]:
    """The partitions of a topic, or the chosen ones."""
    described = admin.describe_topics([topic])
    error = described.error_of(topic)
    if error is not None:
        raise CommandError(f"barnabas: {refusal('topic', topic, error, admin)}", exit_code(error))
    known = [info.partition for info in described[topic].partitions]
    missing = [number for number in chosen or () if number not in known]
    if missing:
        raise CommandError(
            f"barnabas: {topic} has no partition {missing[0]}; it has {len(known)}, starting at 0",
            Exit.NOT_FOUND,
        )
    return [TopicPartition(topic, number) for number in (chosen or known)]
