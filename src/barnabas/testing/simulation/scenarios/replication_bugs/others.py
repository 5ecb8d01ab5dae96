"""Faults that Apache Kafka had (KAFKA-n), planted here: written from their reports, not from our checkers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from barnabas.broker.coordinators.shards import Shards
from barnabas.broker.replicas import partition_reads
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replicas.partition_reads import Isolation, PartitionData, Reader
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.controller.replication.partition_change import PartitionChange
from barnabas.coordinator.shard import Shard
from barnabas.protocol.messages.list_offsets import ListOffsetsResponse
from barnabas.replica.fetching.fetch_state import FetchState, FollowerLog, Phase, Truncation
from barnabas.replica.fetching.fetcher import Fetcher
from barnabas.replica.fetching.outcomes import Fetched, Outcome
from barnabas.replica.follower_state import Follower
from barnabas.replica.partition import Partition
from barnabas.runtime.planted import patched
from barnabas.storage.log.log import Log
from barnabas.testing.simulation.registry import planted

WITHIN_SEEDS = 60

Plant = Callable[[], Iterator[None]]


def _planted(name: str, first_seed: int = 0, scenario: str = "replication") -> Callable[[Plant], Plant]:
    """`first_seed`: one that shows it."""
    return planted(
        f"{scenario}, as others: {name}", scenario=scenario, within_seeds=WITHIN_SEEDS, first_seed=first_seed
    )


@_planted("a follower takes a high watermark over before it truncates")
def high_watermark_before_truncation() -> Iterator[None]:
    """A response with a divergence counts what diverges as committed (14704)."""
    healthy = Fetcher.process

    def process(self: Fetcher, fetched: Fetched, now_ns: int) -> Outcome:
        state, data = fetched
        log = state.partition.log
        if log is not None and data.diverging_epoch.epoch >= 0 and self._is_awaited(state):
            state.follow_watermarks(log, max(data.high_watermark, log.end_offset), -1)
        return healthy(self, fetched, now_ns)

    with patched(Fetcher, "process", process):
        yield


@_planted("a follower below the leader's epoch joins the ISR", 20)
def joins_below_epoch_start() -> Iterator[None]:
    """It has all that this leader knows to be committed, and not all that is (7128)."""
    healthy = Partition._maybe_propose_joining

    def propose(self: Partition[Log], follower: Follower) -> None:
        start, self.leader_epoch_start = self.leader_epoch_start, 0
        try:
            healthy(self, follower)
        finally:
            self.leader_epoch_start = start

    with patched(Partition, "_maybe_propose_joining", propose):
        yield


@_planted("a follower that is out of range begins at the leader's end", 1)
def out_of_range_at_end() -> Iterator[None]:
    """It skips the records between the leader's log start and its end (7414, 9491)."""
    healthy = Fetcher._take_offset

    def found(
        self: Fetcher,
        state: FetchState,
        log: FollowerLog,
        result: ListOffsetsResponse.PartitionResponse,
        now_ns: int,
    ) -> Truncation | None:
        if state.phase is Phase.LATEST and not result.error_code and result.offset >= log.end_offset:
            return self._truncate(state, result.offset, result.offset)
        return healthy(self, state, log, result, now_ns)

    with patched(Fetcher, "_take_offset", found):
        yield


@_planted("the last known leader is elected though it is fenced", 22)
def fenced_last_known_leader() -> Iterator[None]:
    """A partition is led by a broker that does not run (19522)."""

    def can_elect(self: PartitionChange) -> bool:
        last_known = self.partition.last_known_elr
        return self.elr_enabled and not self.elr and not self.isr and len(last_known) == 1

    with patched(PartitionChange, "_can_elect_last_known_leader", can_elect):
        yield


@_planted("a commit is acknowledged before it is replicated", scenario="replication-groups")
def commit_acknowledged_at_once() -> Iterator[None]:
    """An offset that was reported as committed is gone when the coordinator fails."""

    def complete(self: Shard[Any]) -> None:
        while self._waiting:
            self._waiting.popleft().reply()

    with patched(Shard, "_complete_committed", complete):
        yield


@_planted("a deposed coordinator goes on", 50, scenario="replication-groups")
def deposed_goes_on() -> Iterator[None]:
    """A broker that has lost the partition keeps its groups, and takes up from there when it leads again."""
    healthy = Shards._partition_changed

    def changed(self: Shards[Any], hosted: Hosted) -> None:
        partition = self._partitions.get(hosted.index)
        if hosted.topic == self.topic and partition is not None and partition.hosted is hosted:
            partition.leader_epoch = hosted.leader_epoch
            if not hosted.is_leader:
                return
        healthy(self, hosted)

    with patched(Shards, "_partition_changed", changed):
        yield


@_planted("consumers of a rack read to the end", scenario="replication-racks")
def racked_consumers_read_to_the_end() -> Iterator[None]:
    """A consumer that names its rack is served like a replica, beyond the high watermark (KIP-392)."""
    healthy = partition_reads._read_log

    def read_log(replicas: ReplicaManager, reader: Reader, *rest: Any) -> PartitionData:
        if not reader.rack:
            return healthy(replicas, reader, *rest)
        known, reader.isolation = reader.isolation, Isolation.LOG_END
        try:
            return healthy(replicas, reader, *rest)
        finally:
            reader.isolation = known

    with patched(partition_reads, "_read_log", read_log):
        yield
