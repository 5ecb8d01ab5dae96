"""New partitions: assignments by hand and by the placer, checked, and as partitions to be."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.state import ControllerState
from barnabas.controller.topics.placement import place
from barnabas.metadata.topics import Partition


def check_assignment(state: ControllerState, replicas: Sequence[int], replication_factor: int | None) -> None:
    """An assignment by hand: known brokers, each once, as many as the partitions before have."""
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


def _refused(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)


def assigned(state: ControllerState, number: int, replicas: Sequence[int]) -> Partition:
    """A new partition on these brokers; at least one of them must be up."""
    partition = new_partition(state, replicas)
    if partition is None:
        raise _refused(
            f"All brokers specified in the manual partition assignment for partition {number} are fenced or"
            " in controlled shutdown."
        )
    return partition


def placements(state: ControllerState, partitions: int, replication_factor: int) -> list[list[int]]:
    """Replicas for new partitions, where the placer puts them."""
    return place(state.usable_brokers(), partitions, replication_factor, state.random)


def placed(state: ControllerState, placements: Sequence[Sequence[int]]) -> list[Partition]:
    """New partitions with these replicas."""
    found = []
    for replicas in placements:
        partition = new_partition(state, replicas)
        if partition is None:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {len(replicas)} time(s): All brokers are currently fenced"
                " or in controlled shutdown.",
            )
        found.append(partition)
    return found


def new_partition(state: ControllerState, replicas: Sequence[int]) -> Partition | None:
    """In sync are those that are up, the first of them leads; None if none is."""
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
