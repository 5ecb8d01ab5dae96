"""The files that reassign-partitions reads, and the plans that it prints."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.cli.framework.exits import CommandError, UsageError
from barnabas.cli.framework.json_file import check_version, field, items, read_json_file
from barnabas.cli.framework.numbers import integer
from barnabas.client.errors import UnknownTopicOrPartitionError
from barnabas.client.model import TopicPartition, TopicPartitionReplica
from barnabas.client.sync import Admin

T = TypeVar("T")
ANY_FOLDER = "any"
Assignments = Mapping[TopicPartition, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Plan:
    """The target replicas of partitions, and the target log directories of replicas, if given."""

    parts: tuple[tuple[TopicPartition, tuple[int, ...]], ...]
    folders: Mapping[TopicPartitionReplica, str]

    @property
    def targets(self) -> dict[TopicPartition, tuple[int, ...]]:
        return dict(self.parts)

    @property
    def topics(self) -> list[str]:
        return sorted({partition.topic for partition, _ in self.parts})


def read_plan(path: str) -> Plan:
    """A --reassignment-json-file."""
    data = _read(path)
    parts, folders = [], {}
    for entry in items(data, "partitions", dict, path) if "partitions" in data else ():
        partition = TopicPartition(field(entry, "topic", str, path), field(entry, "partition", int, path))
        replicas = items(entry, "replicas", int, path)
        names = items(entry, "log_dirs", str, path) if "log_dirs" in entry else [ANY_FOLDER] * len(replicas)
        if len(names) != len(replicas):
            raise UsageError(
                f"Error: Size of replicas list {_shown(replicas)} is different from size of log dirs list "
                f"{_shown(names)} for partition {partition}"
            )
        parts.append((partition, tuple(replicas)))
        for broker, name in zip(replicas, names, strict=True):
            if name != ANY_FOLDER:
                folders[TopicPartitionReplica(*partition, broker)] = name
    return Plan(tuple(parts), folders)


def _read(path: str) -> dict[str, Any]:
    try:
        data = read_json_file(path, "The input string is not a valid JSON")
        check_version(data, path)
    except CommandError as error:
        raise CommandError(f"Error: {error}", error.code) from error
    plan: dict[str, Any] = data
    return plan


def _shown(values: Sequence[object]) -> str:
    return f"[{', '.join(map(str, values))}]"


def check_plan(plan: Plan) -> None:
    """Raises UsageError for plans that --execute must not start."""
    if not plan.parts:
        raise UsageError("Error: Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in plan.parts):
        raise UsageError("Error: Partition replica list cannot be empty")
    twice = duplicates(partition for partition, _ in plan.parts)
    if twice:
        raise UsageError(
            f"Error: Partition reassignment contains duplicate topic partitions: {','.join(map(str, twice))}"
        )
    faults = [
        f"{partition} contains multiple entries for {','.join(map(str, duplicates(replicas)))}"
        for partition, replicas in plan.parts
        if duplicates(replicas)
    ]
    if faults:
        raise UsageError(
            f"Error: Partition replica lists may not contain duplicate entries: {'. '.join(faults)}"
        )


def duplicates(values: Iterable[T]) -> list[T]:
    """The values that occur more than once."""
    listed = list(values)
    return [value for value in dict.fromkeys(listed) if listed.count(value) > 1]


def read_topics(path: str) -> list[str]:
    """A --topics-to-move-json-file."""
    data = _read(path)
    listed = items(data, "topics", dict, path) if "topics" in data else []
    topics = [field(entry, "topic", str, path) for entry in listed]
    twice = duplicates(topics)
    if twice:
        raise UsageError(f"Error: List of topics to reassign contains duplicate entries: {_shown(twice)}")
    return topics


def read_brokers(text: str) -> list[int]:
    """A --broker-list."""
    brokers = []
    for word in text.split(","):
        try:
            brokers.append(integer(word))
        except ArgumentTypeError as error:
            raise UsageError(f'Error: For input string: "{word}"') from error
    twice = duplicates(brokers)
    if twice:
        raise UsageError(f"Error: Broker list contains duplicate entries: {_shown(twice)}")
    return brokers


def assignments_of_topics(admin: Admin, topics: Iterable[str]) -> dict[TopicPartition, tuple[int, ...]]:
    """The current assignment of topics."""
    described = admin.describe_topics(topics)
    for name in described:
        error = described.error_of(name)
        if error is not None and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopicOrPartitionError(f"Topic {name} not found.")
    return {
        TopicPartition(topic.name, info.partition): info.replicas
        for topic in described.raise_first().values()
        for info in topic.partitions
    }


def assignments_of(admin: Admin, plan: Plan) -> dict[TopicPartition, tuple[int, ...]]:
    """The current assignment of the partitions of a plan."""
    present = assignments_of_topics(admin, plan.topics)
    missing = [str(partition) for partition in plan.targets if partition not in present]
    if missing:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition: {', '.join(missing)}"
        )
    return {partition: present[partition] for partition in plan.targets}


def as_plan(assignments: Assignments) -> str:
    """The contents of a file for --execute, in one line."""
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(assignments[partition]),
            "log_dirs": [ANY_FOLDER] * len(assignments[partition]),
        }
        for partition in sorted(assignments)
    ]
    data = {"version": 1, "partitions": partitions}
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)
