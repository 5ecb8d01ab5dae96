"""Data classes shared by all clients: nodes, topics, partitions, offsets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.base.topic_names import fault_of
from barnabas.client.errors.data import InvalidTopicError

NO_NODE = -1
NO_EPOCH = -1


class TopicPartition(NamedTuple):
    """A partition by its topic's name and its number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def check_topic(given: object) -> None:
    """Raises TypeError or InvalidTopicError for what cannot be a topic's name.

    An illegal name must never be requested: it would fail the metadata request of other topics.
    """
    if not isinstance(given, str):
        raise TypeError(f"a topic's name is a str, not {type(given).__name__}")
    fault = fault_of(given)
    if fault is not None:
        raise InvalidTopicError(f"Topic name is invalid: {fault}")


def as_partition(given: object) -> TopicPartition:
    """A partition from a TopicPartition or a pair; raises TypeError with the right form for anything else."""
    if isinstance(given, tuple | list) and len(given) == 2:
        topic, number = given
        if isinstance(topic, str) and isinstance(number, int) and not isinstance(number, bool):
            if number < 0:
                raise ValueError(f"a partition's number is {number}: numbers start at 0")
            return given if type(given) is TopicPartition else TopicPartition(topic, number)
    if isinstance(given, str):
        raise TypeError(
            f"{given!r} is not a partition: write TopicPartition({given!r}, 0), or subscribe([{given!r}]) "
            "for all partitions of a topic"
        )
    raise TypeError(f"{given!r} is not a partition: write TopicPartition(topic, number)")


def as_partitions(given: Iterable[object]) -> list[TopicPartition]:
    """The same for a collection of them."""
    if isinstance(given, str):
        raise TypeError(
            f"{given!r} is not a collection of partitions: write [TopicPartition({given!r}, 0)], or "
            f"subscribe([{given!r}]) for all partitions of a topic"
        )
    if isinstance(given, TopicPartition):
        raise TypeError(f"{given!r} is one partition, not a collection of them: write [{given!r}]")
    return [as_partition(each) for each in given]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partition numbers by topic, as most requests need them."""
    results: dict[str, list[int]] = {}
    for partition in partitions:
        results.setdefault(partition.topic, []).append(partition.partition)
    return results


class TopicPartitionReplica(NamedTuple):
    """A replica of a partition on a broker."""

    topic: str
    partition: int
    broker_id: int


@dataclass(frozen=True, slots=True)
class Node:
    """A broker or controller; a negative id stands for a bootstrap server that was not contacted yet."""

    id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.id < 0 else f"{host}:{self.port} (id {self.id})"


@dataclass(frozen=True, slots=True)
class Partition:
    """The leader and replicas of a partition."""

    topic: str
    number: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its partitions, ordered by number."""

    name: str
    id: Uuid = ZERO_UUID
    is_internal: bool = False
    partitions: tuple[Partition, ...] = ()
    error_code: int = 0
    # Replaced with every response that changes the topic.
    partition_of: dict[int, Partition] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset: the next one to read, with the leader epoch of the record before it."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """The first record at or after a timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """The committing member of a group, as needed for commits in a transaction (KIP-447)."""

    group_id: str
    generation_id: int = NO_EPOCH
    member_id: str = ""
    group_instance_id: str | None = None
