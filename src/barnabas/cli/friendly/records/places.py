"""Places in logs, from what was asked for to offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.kafka_errors import exit_code
from barnabas.cli.friendly.framework import refusal
from barnabas.cli.friendly.records.times import AtTime, Edge, FromEnd, Place, parse_place
from barnabas.client.admin.records import OffsetSpec
from barnabas.client.errors.base import AuthorizationError, ClientError
from barnabas.client.model import TopicPartition
from barnabas.runtime.clock import SystemClock

if TYPE_CHECKING:
    from barnabas.client.sync import Admin

# Start and end of a partition's log, as readers see them.
Edges = dict[TopicPartition, tuple[int, int]]


def place_option(parser: ArgumentParser, flag: str, text: str) -> Place:
    try:
        return parse_place(text, SystemClock().wall_ms())
    except ValueError as error:
        parser.error(f"{flag}: {error}")


def log_edges(admin: Admin, partitions: Iterable[TopicPartition]) -> Edges:
    """Of those whose leaders answer; what may not be seen is an error."""
    asked = list(partitions)
    if not asked:
        return {}
    starts = admin.list_offsets(dict.fromkeys(asked, OffsetSpec.EARLIEST))
    ends = admin.list_offsets(dict.fromkeys(asked, OffsetSpec.LATEST))
    for error in (*starts.errors.values(), *ends.errors.values()):
        if isinstance(error, AuthorizationError):
            raise error
    found, last = starts.values_by_key, ends.values_by_key
    return {
        where: (found[where].offset, last[where].offset)
        for where in asked
        if where in found and where in last
    }


def log_sizes(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Bytes of the largest replica, as far as brokers tell (it takes the right to describe the cluster)."""
    asked = list(partitions)
    if not asked:
        return {}
    brokers = [node.id for node in admin.describe_cluster().nodes]
    sizes: dict[TopicPartition, int] = {}
    try:
        folders = admin.describe_log_dirs(brokers, partitions=asked)
    except ClientError:
        return {}
    for paths in folders.values_by_key.values():
        for folder in paths.values():
            for where, replica in folder.replicas.items():
                if not replica.is_future:
                    sizes[where] = max(sizes.get(where, 0), replica.size_bytes)
    return sizes


def resolve(
    admin: Admin, place: Place, edges: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    """The offset of a place in each partition; it may lie outside of the log."""
    if isinstance(place, AtTime):
        asked = dict.fromkeys(edges, place.at_ms)
        found = admin.list_offsets(asked) if asked else {}
        offsets = {where: found[where].offset for where in found}
        return {where: offsets[where] if offsets[where] >= 0 else edges[where][1] for where in offsets}
    return {where: _offset(place, start, end) for where, (start, end) in edges.items()}


def _offset(place: Edge | FromEnd | int, start: int, end: int) -> int:
    if isinstance(place, int):
        return place
    if isinstance(place, FromEnd):
        return max(start, end - place.count)
    return start if place is Edge.EARLIEST else end


def partitions_of(admin: Admin, topic: str, chosen: Sequence[int] | None) -> list[TopicPartition]:
    """The partitions of a topic, or those of them that were asked for."""
    described = admin.describe_topics([topic])
    error = described.error_of(topic)
    if error is not None:
        raise CommandError(f"barnabas: {refusal('topic', topic, error)}", exit_code(error))
    known = [one.partition for one in described[topic].partitions]
    missing = [number for number in chosen or () if number not in known]
    if missing:
        raise CommandError(
            f"barnabas: {topic} has no partition {missing[0]}; it has {len(known)}, from 0 on", Exit.NOT_FOUND
        )
    return [TopicPartition(topic, number) for number in (chosen or known)]
