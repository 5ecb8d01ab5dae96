"""What a broker's absence would do to partitions: which would be lost, unavailable or closed to writes.

Contains the facts about partitions and the rules; commands that act on them belong in `restart` and `drain`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from barnabas.client.sync import Admin

MIN_ISR = "min.insync.replicas"
# How many partitions a message names before it only counts them.
MAX_NAMED = 3


class PartitionState(NamedTuple):
    """A partition as the cluster describes it."""

    name: str
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int = 1


@dataclass(frozen=True, slots=True)
class Absence:
    """The partitions that keep a broker from stopping; all empty if it may."""

    # It has the only replica: nothing can be read or written meanwhile.
    only_replica: list[PartitionState]
    # All other replicas are behind: what it alone has would be lost with it.
    last_in_sync: list[PartitionState]
    # Too few others are in sync to acknowledge writes, although there are enough replicas.
    below_min_isr: list[PartitionState]


def absence_of(broker_id: int, partitions: Iterable[PartitionState]) -> Absence:
    absence = Absence([], [], [])
    for partition in partitions:
        if broker_id not in partition.replicas:
            continue
        others = [replica for replica in partition.isr if replica != broker_id]
        if partition.replicas == (broker_id,):
            absence.only_replica.append(partition)
        elif not others:
            absence.last_in_sync.append(partition)
        elif len(others) < min(partition.min_isr, len(partition.replicas) - 1):
            absence.below_min_isr.append(partition)
    return absence


def closed_to_writes(broker_id: int, partitions: Iterable[PartitionState]) -> list[PartitionState]:
    """The partitions that need every replica for acks=all, so that nobody can write while one is away."""
    return [
        partition
        for partition in partitions
        if broker_id in partition.replicas and 1 < len(partition.replicas) <= partition.min_isr
    ]


def behind(broker_id: int, partitions: Iterable[PartitionState]) -> list[PartitionState]:
    """The partitions whose replica on this broker is not in sync."""
    return [
        partition
        for partition in partitions
        if broker_id in partition.replicas and broker_id not in partition.isr
    ]


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def named(partitions: Sequence[PartitionState]) -> str:
    """`t-0, t-1, t-2 and 4 more partitions`."""
    names = ", ".join(partition.name for partition in partitions[:MAX_NAMED])
    more = len(partitions) - MAX_NAMED
    return names if more <= 0 else f"{names} and {counted(more, 'more partition')}"


def partition_states(admin: Admin) -> list[PartitionState]:
    """Every partition of the cluster, internal topics included."""
    from barnabas.base.errors import ErrorCode
    from barnabas.client.admin.configs import ConfigResource, ConfigResourceType

    names = sorted(admin.list_topics(include_internal=True))
    if not names:
        return []
    described = admin.describe_topics(names)
    for error in described.errors.values():
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # Deleted since it was listed.
            raise error
    topics = [described[name] for name in names if name not in described.errors]
    resources = {topic.name: ConfigResource(ConfigResourceType.TOPIC, topic.name) for topic in topics}
    configs = admin.describe_configs(resources.values()).values_by_key
    return [
        PartitionState(
            f"{topic.name}-{partition.partition}",
            partition.leader,
            partition.replicas,
            partition.isr,
            int(configs[resources[topic.name]][MIN_ISR].value or 1)
            if resources[topic.name] in configs
            else 1,
        )
        for topic in topics
        for partition in topic.partitions
    ]
