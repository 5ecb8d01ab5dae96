"""The reassignment of a partition's replicas (KIP-455): start, completion, and revert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.metadata.topics import Partition


class Reassignment(NamedTuple):
    """The assignment during a reassignment: target replicas first, then those being removed."""

    replicas: list[int]
    removing: list[int]
    adding: list[int]


def begin(current: Sequence[int], target: Sequence[int]) -> Reassignment:
    removing = sorted(set(current) - set(target))
    return Reassignment([*target, *removing], removing, sorted(set(target) - set(current)))


def in_progress(partition: Partition) -> bool:
    return bool(partition.removing_replicas or partition.adding_replicas)


def completed(
    replicas: Sequence[int], isr: Sequence[int], removing: Sequence[int], adding: Sequence[int]
) -> tuple[list[int], list[int]] | None:
    """The final replicas and ISR once all targets are in sync; None before that or without reassignment."""
    if not removing and not adding:
        return None
    final = [replica for replica in replicas if replica not in removing]
    in_sync = [replica for replica in isr if replica not in removing]
    if not final or not in_sync or not set(final) <= set(in_sync):
        return None
    return final, in_sync


class Revert(NamedTuple):
    """The assignment after a reassignment is cancelled; unclean if no original replica is in sync."""

    replicas: list[int]
    isr: list[int]
    unclean: bool


def revert(partition: Partition) -> Revert:
    adding = partition.adding_replicas
    replicas = [replica for replica in partition.replicas if replica not in adding]
    isr = [replica for replica in partition.isr if replica not in adding]
    if isr:
        return Revert(replicas, isr, unclean=False)
    if not replicas:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Invalid replica assignment: addingReplicas contains all replicas.",
        )
    return Revert(replicas, replicas[:1], unclean=True)


def replication_factor_of(partition: Partition) -> int:
    """The replication factor, independent of an ongoing reassignment."""
    return len(
        {*partition.replicas, *partition.adding_replicas} - set(partition.removing_replicas)
        if in_progress(partition)
        else partition.replicas
    )
