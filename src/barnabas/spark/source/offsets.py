"""Offsets of many partitions in the JSON of Spark's own Kafka connector, for options and checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from barnabas.client.model import TopicPartition
from barnabas.spark.given_options import OptionError
from barnabas.spark.topic_ids import IDS

# The numbers that stand for the bounds of a partition in the options' JSON.
LATEST = -1
EARLIEST = -2

PartitionOffsets = dict[TopicPartition, int]
OffsetJson = dict[str, dict[str, Any]]


class Edge(Enum):
    """A position that every partition has."""

    EARLIEST = "earliest"
    LATEST = "latest"
    # The committed offset of `groupId`; a partition without one starts at its beginning.
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset per partition; -1 is its end, -2 its beginning."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The first record of each partition at or after a timestamp, in milliseconds.

    `times` is one for all, or one per partition.  Without such a record a start is an error, or the end of
    the partition if `else_latest`.
    """

    times: int | Mapping[TopicPartition, int]
    else_latest: bool


Limit = Edge | AtOffsets | AtTimes


def to_json(offsets: Mapping[TopicPartition, int], ids: Mapping[str, str] | None = None) -> OffsetJson:
    """Sorted, as Spark compares offsets as text."""
    results: OffsetJson = {}
    topics = {partition.topic for partition in offsets}
    kept = {topic: ids[topic] for topic in sorted(topics & ids.keys())} if ids else {}
    if kept:
        results[IDS] = kept
    for partition in sorted(offsets):
        results.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return results


def from_checkpoint(value: Any) -> PartitionOffsets:
    """Parse offsets of a checkpoint; raises OptionError for those of another source."""
    try:
        return _partition_numbers({topic: of for topic, of in value.items() if topic != IDS})
    except (TypeError, ValueError, AttributeError):
        raise OptionError(
            f"the checkpoint contains {json.dumps(value)}, which are not offsets of topics: it belongs to "
            "another query; set another checkpointLocation"
        ) from None


def ids_of(value: Mapping[str, Any]) -> dict[str, str]:
    """The ids of topics in offsets of a checkpoint; checkpoints of earlier versions have none."""
    ids = value.get(IDS)
    return {str(topic): str(topic_id) for topic, topic_id in ids.items()} if isinstance(ids, dict) else {}


def created_again(start: Mapping[str, Any], end: Mapping[str, Any]) -> set[str]:
    """The topics that have another id at the end than at the start."""
    before, after = ids_of(start), ids_of(end)
    return {topic for topic, topic_id in before.items() if after.get(topic, topic_id) != topic_id}


def read_offsets(option: str, text: str) -> PartitionOffsets:
    """Parse the JSON of an option such as startingOffsets."""
    example = '{"topicA": {"0": 23, "1": -1}, "topicB": {"0": -2}}'
    try:
        offsets = _partition_numbers(json.loads(text))
    except (TypeError, ValueError, AttributeError):
        raise OptionError(f"option {option}: expected e.g. {example}, got {text}") from None
    for partition, number in offsets.items():
        # Spark's own connector seeks there, which fails; no data was lost there.
        if number < EARLIEST:
            raise OptionError(
                f"option {option}: {number} for {partition} is not possible; give 0 or more, "
                f"{LATEST} for latest or {EARLIEST} for earliest"
            )
    return offsets


def read_partitions(option: str, text: str) -> tuple[TopicPartition, ...]:
    """Parse the JSON of the option assign."""
    example = '{"topicA": [0, 1], "topicB": [2, 4]}'
    try:
        selected = [
            TopicPartition(topic, _number(partition))
            for topic, partitions in json.loads(text).items()
            for partition in partitions
        ]
    except (TypeError, ValueError, AttributeError):
        raise OptionError(f"option {option}: expected e.g. {example}, got {text}") from None
    if not selected:
        raise OptionError(f"option {option} names no partitions; expected e.g. {example}")
    return tuple(sorted(set(selected)))


def listed(partitions: Iterable[TopicPartition]) -> str:
    """Format for messages; long lists are cut."""
    most = 20
    names = [str(partition) for partition in sorted(partitions)]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _partition_numbers(value: Any) -> PartitionOffsets:
    return {
        TopicPartition(topic, int(partition)): _number(offset)
        for topic, partitions in value.items()
        for partition, offset in partitions.items()
    }


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not an integer")
    return value
