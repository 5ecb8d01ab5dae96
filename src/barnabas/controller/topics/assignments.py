"""Replica assignments of new partitions: manual ones, checked, and those of the replica placer."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.state import ControllerState
from barnabas.controller.topics.placement import place
from barnabas.metadata.topics import Partition


def check_assignment(state: ControllerState, replicas: Sequence[int], replication_factor: int | None) -> None:
    """Check a manual assignment: registered brokers, no duplicates, a consistent replication factor."""
    if not replicas:
        raise _refused("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker_id in sorted(replicas):
        if broker_id not in state.image.brokers:
            raise _refused(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is"
                " registered."
            )
        if broker_id == previous:
            raise _refused(f"The manual partition assignment includes the broker {previous} more than once.")
        previous = broker_id
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _refused(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this"
            f" is not consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def manual_partition(state: ControllerState, number: int, replicas: Sequence[int]) -> Partition:
    """A new partition on these brokers, at least one of which must be active."""
    partition = new_partition(state, replicas)
    if partition is None:
        raise _refused(
            f"All brokers specified in the manual partition assignment for partition {number} are fenced or"
            " in controlled shutdown."
        )
    return partition


def choose_placements(state: ControllerState, partitions: int, replication_factor: int) -> list[list[int]]:
    """The replicas of new partitions, chosen by the replica placer."""
    too_few = state.options.policy.too_few_brokers
    return place(state.usable_brokers(), partitions, replication_factor, state.random, too_few)


def placed_partitions(state: ControllerState, placements: Sequence[Sequence[int]]) -> list[Partition]:
    """New partitions with these replicas."""
    partitions = []
    for replicas in placements:
        partition = new_partition(state, replicas)
        if partition is None:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {len(replicas)} time(s): All brokers are currently fenced"
                " or in controlled shutdown.",
            )
        partitions.append(partition)
    return partitions


def new_partition(state: ControllerState, replicas: Sequence[int]) -> Partition | None:
    """The active replicas form the ISR and the first of them leads; None if none is active."""
    isr = tuple(replica for replica in replicas if state.is_active(replica))
    if not isr:
        return None
    return Partition(
        replicas=tuple(replicas),
        directories=tuple(state.default_directory(replica) for replica in replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
    )
