"""What the client knows of a cluster: nodes, topics, partitions.  Plain data, shared by all its parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.base.ids import ZERO_UUID, Uuid

NO_NODE = -1
NO_EPOCH = -1


class TopicPartition(NamedTuple):
    """A partition by its topic's name and its number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Numbers by topic, as most requests want them."""
    found: dict[str, list[int]] = {}
    for one in partitions:
        found.setdefault(one.topic, []).append(one.partition)
    return found


class TopicPartitionReplica(NamedTuple):
    """One replica of a partition, by the broker that has it."""

    topic: str
    partition: int
    broker_id: int


@dataclass(frozen=True, slots=True)
class Node:
    """A broker or controller; a negative id stands for a bootstrap server that was not asked yet."""

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
    """Where a partition lives."""

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
    # Changes with every answer that tells anything new of the topic.
    partition_of: dict[int, Partition] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset: the next one to read, with the epoch of the record before it."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """The first record at or after a time."""

    offset: int
    timestamp: int
    leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """Who commits: a member of a group, as a transaction that commits its offsets has to tell (KIP-447)."""

    group_id: str
    generation_id: int = NO_EPOCH
    member_id: str = ""
    group_instance_id: str | None = None
