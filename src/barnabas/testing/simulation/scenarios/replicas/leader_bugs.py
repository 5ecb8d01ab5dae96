"""Bugs of leaders and of the controller that `replicas` must find; numbers are those of cluster.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.handlers import list_offsets
from barnabas.broker.replicas import partition_reads
from barnabas.broker.replicas.partition_lookup import PartitionTable
from barnabas.controller.replication import alter_partition, alter_partition_reassignments
from barnabas.controller.replication.reassignment import Revert
from barnabas.metadata.topics import Partition as PartitionState
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.replica.follower_state import Follower
from barnabas.replica.partition import Partition
from barnabas.runtime.planted import patched
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_reader import TimestampAndOffset
from barnabas.testing.simulation.registry import planted

SCENARIO = "replicas"
WITHIN_SEEDS = 100

Plant = Callable[[], Iterator[None]]


def _planted(name: str, first_seed: int = 0) -> Callable[[Plant], Plant]:
    """`first_seed`: one that shows it."""
    return planted(f"replicas: {name}", scenario=SCENARIO, within_seeds=WITHIN_SEEDS, first_seed=first_seed)


@_planted("a leader tells an old high watermark as the latest offset")
def tells_old_high_watermark() -> Iterator[None]:
    """4: before it has passed the start of its epoch (KIP-207)."""
    healthy = list_offsets._find

    def find(replicas: Any, request: Any, topic: str, partition: Any) -> TimestampAndOffset | None:
        try:
            return healthy(replicas, request, topic, partition)
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_NOT_AVAILABLE:
                raise
            hosted = replicas.find(topic, partition.partition_index)
            return TimestampAndOffset(-1, hosted.log.high_watermark, hosted.leader_epoch)

    with patched(list_offsets, "_find", find):
        yield


@_planted("the start of the epoch does not count for joining")
def joins_below_the_epoch() -> Iterator[None]:
    """5: a replica joins when it has reached the high watermark (KAFKA-7128)."""
    healthy = Partition._maybe_propose_joining

    def propose(self: Partition[Log], follower: Follower) -> None:
        start, self.leader_epoch_start = self.leader_epoch_start, 0
        try:
            healthy(self, follower)
        finally:
            self.leader_epoch_start = start

    with patched(Partition, "_maybe_propose_joining", propose):
        yield


@_planted("a diverging fetch counts")
def diverging_fetch_counts() -> Iterator[None]:
    """7: the leader takes the offset of a follower that must truncate (KAFKA-13141)."""
    healthy = partition_reads._read_as_follower

    def read(
        replicas: Any,
        reader: Any,
        hosted: Any,
        log: Log,
        wanted: FetchRequest.Partition,
        *rest: Any,
    ) -> Any:
        data = healthy(replicas, reader, hosted, log, wanted, *rest)
        if data.diverging_epoch.epoch >= 0 and hosted.follower_fetched(
            hosted.follower(reader.replica_id, knows_epoch=True),
            wanted.fetch_offset,
            log_start_offset=wanted.log_start_offset,
            broker_epoch=reader.broker_epoch,
            now_ns=replicas.now_ns(),
        ):
            replicas.advanced(hosted)
        return data

    with patched(partition_reads, "_read_as_follower", read):
        yield


@_planted("a fenced replica joins")
def fenced_replica_joins() -> Iterator[None]:
    """11: neither the leader nor the controller looks whether a broker is fenced or stops (KIP-841)."""
    with (
        patched(alter_partition, "_is_eligible", lambda state, member: True),
        patched(PartitionTable, "is_eligible", lambda self, broker_id, broker_epoch: True),
    ):
        yield


@_planted("the high watermark advances below min.insync.replicas")
def advances_below_min_isr() -> Iterator[None]:
    """13: what only the rest of the ISR has is exposed, and the ELR does not have it (KIP-966)."""

    def update(self: Partition[Log]) -> None:
        self.is_under_min_isr = False

    with patched(Partition, "_update_under_min_isr", update):
        yield


@_planted("who leaves counts no more when the controller has agreed", 332)
def leaving_counts_no_more() -> Iterator[None]:
    """The leader does not know the min.insync.replicas yet by which the controller made the ELR (KIP-966)."""
    healthy = Partition._least_end_offset

    def least(self: Partition[Log], leader_end_offset: int, now_ns: int) -> int:
        self.leaving = frozenset()
        return healthy(self, leader_end_offset, now_ns)

    with patched(Partition, "_least_end_offset", least):
        yield


@_planted("who joins counts when the controller has agreed", 7)
def joining_counts_late() -> Iterator[None]:
    """The high watermark passes a replica that is a member by then (KIP-497)."""
    healthy = Partition._maybe_propose_joining

    def propose(self: Partition[Log], follower: Follower) -> None:
        healthy(self, follower)
        self.maximal_isr = self.isr

    with patched(Partition, "_maybe_propose_joining", propose):
        yield


@_planted("a cancelled reassignment keeps the ISR", 144)
def cancel_keeps_isr() -> Iterator[None]:
    """Replicas that were to be added stay members, and delete their logs."""

    def revert(partition: PartitionState) -> Revert:
        adding = partition.adding_replicas
        replicas = [replica for replica in partition.replicas if replica not in adding]
        return Revert(replicas, list(partition.isr), unclean=False)

    with patched(alter_partition_reassignments, "revert", revert):
        yield
