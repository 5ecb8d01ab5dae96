"""Which brokers take over the replicas of one that is drained.

Each replica keeps its place in the list, so that leaders stay spread.  The broker with the fewest replicas
takes over, in a rack that has none of the partition if there is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.client.admin.reassignments import Reassignment
from barnabas.client.admin.topics import PartitionDescription
from barnabas.client.model import TopicPartition

# Replicas that move at once: the copies of one batch do not hold up the others for hours.
MAX_MOVING = 50

Partitions = Mapping[str, tuple[str, PartitionDescription]]


@dataclass(frozen=True, slots=True)
class Move:
    """The new replicas of one partition."""

    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    is_leader: bool


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """The moves to start, those in progress, and why a broker cannot be drained."""

    broker_id: int
    moves: list[Move] = field(default_factory=list)
    moving: list[TopicPartition] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


def moves_off(
    broker_id: int,
    racks: Mapping[int, str | None],
    partitions: Partitions,
    active: Mapping[TopicPartition, Reassignment],
) -> DrainPlan:
    """`racks`: those of the brokers that are alive."""
    plan = DrainPlan(broker_id)
    replicas = Counter(replica for _, info in partitions.values() for replica in info.replicas)
    if broker_id not in racks and broker_id not in replicas:
        known = ", ".join(map(str, sorted(racks)))
        plan.refusals.append(f"there is no broker {broker_id}; the brokers are {known}")
    for name, (topic, info) in sorted(partitions.items()):
        if broker_id not in info.replicas:
            continue
        partition = TopicPartition(topic, info.partition)
        move = active.get(partition)
        if move is not None:
            if broker_id in move.removing_replicas:
                plan.moving.append(partition)
            else:
                plan.refusals.append(f"{name} is being reassigned already; wait for that, or cancel it")
            continue
        if broker_id not in racks and set(info.isr) <= {broker_id}:
            plan.refusals.append(
                f"{name} has no in-sync replica but on broker {broker_id}, which is down; start it first"
            )
            continue
        target = _target(broker_id, info, racks, replicas)
        if target is None:
            plan.refusals.append(
                f"{name} has {len(info.replicas)} replicas, and there is no other broker for one of them; "
                "add a broker, or reduce the replication factor first"
            )
            continue
        replicas[target] += 1
        after = tuple(target if replica == broker_id else replica for replica in info.replicas)
        plan.moves.append(Move(partition, info.replicas, after, info.leader == broker_id))
    return plan


def _target(
    broker_id: int, info: PartitionDescription, racks: Mapping[int, str | None], replicas: Counter[int]
) -> int | None:
    candidates = [broker for broker in racks if broker not in info.replicas]
    others = [replica for replica in info.replicas if replica != broker_id]
    used = {racks[replica] for replica in others if replica in racks} - {None}
    return min(
        candidates,
        key=lambda broker: (racks[broker] in used, replicas[broker], broker),
        default=None,
    )
