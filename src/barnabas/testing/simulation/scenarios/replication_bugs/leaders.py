"""Bugs of leaders and controllers that `replication` must find; those of followers are in another module."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.broker.handlers import list_offsets
from barnabas.broker.replicas import partition_reads
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replicas.partition_lookup import PartitionTable
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.controller.brokers import brokers
from barnabas.controller.replication import alter_partition
from barnabas.controller.replication.partition_change import PartitionChange
from barnabas.metadata.topics import NO_LEADER
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.replica.partition import Partition
from barnabas.runtime.planted import patched
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_reader import TimestampAndOffset
from barnabas.testing.simulation.registry import planted

SCENARIO = "replication"
WITHIN_SEEDS = 40


Plant = Callable[[], Iterator[None]]


def _planted(name: str, first_seed: int = 0) -> Callable[[Plant], Plant]:
    """`first_seed`: one that shows it."""
    return planted(
        f"replication: {name}", scenario=SCENARIO, within_seeds=WITHIN_SEEDS, first_seed=first_seed
    )


@_planted("the high watermark ignores replicas that join", 22)
def no_maximal_isr() -> Iterator[None]:
    """Records are committed without a replica that the controller may have in the ISR already (KIP-497)."""

    def least(self: Partition[Log], leader_end_offset: int, now_ns: int) -> int:
        ends = (each.end_offset for each in self.followers.values() if each.broker_id in self.isr)
        return min(leader_end_offset, *ends, leader_end_offset)

    with patched(Partition, "_least_end_offset", least):
        yield


@_planted("the high watermark is the leader's end")
def high_watermark_at_end() -> Iterator[None]:
    """Records are committed as soon as the leader has them."""
    with patched(Partition, "_least_end_offset", lambda self, end_offset, now_ns: end_offset):
        yield


@_planted("a diverging fetch counts", 1)
def divergence_counts() -> Iterator[None]:
    """The leader takes the end of a log that is not its own for progress (13141)."""
    diverging: list[object] = []
    healthy_log = partition_reads._read_log

    def read_log(
        replicas: ReplicaManager, reader: object, log: Log, wanted: object, max_bytes: int, one: bool
    ) -> object:
        data = healthy_log(replicas, reader, log, wanted, max_bytes, one)  # type: ignore[arg-type]
        if data.diverging_epoch is not partition_reads._SAME_EPOCH:
            # Equal, and not the same: the caller counts the fetch.
            found, data.diverging_epoch = data.diverging_epoch, partition_reads._SAME_EPOCH
            diverging.append((data, found))
        return data

    healthy_read = partition_reads.read

    def read(*arguments: object, **options: object) -> object:
        data = healthy_read(*arguments, **options)  # type: ignore[arg-type]
        while diverging:
            noted, found = diverging.pop()  # type: ignore[misc]
            noted.diverging_epoch = found  # type: ignore[has-type]
        return data

    with patched(partition_reads, "_read_log", read_log), patched(partition_reads, "read", read):
        yield


@_planted("a fenced replica joins the ISR", 1)
def fenced_in_isr() -> Iterator[None]:
    """Neither the leader nor the controller looks whether the broker is fenced (13916, KIP-841)."""
    with (
        patched(PartitionTable, "is_eligible", lambda self, broker_id, broker_epoch: True),
        patched(alter_partition, "_is_eligible", lambda state, member: True),
    ):
        yield


@_planted("min.insync.replicas is ignored")
def min_isr_ignored() -> Iterator[None]:
    """Records are committed, and acknowledged, with fewer replicas than required."""

    def update(self: Partition[Log]) -> None:
        self.is_under_min_isr = False

    with patched(Partition, "_update_under_min_isr", update):
        yield


@_planted("a new leader reports an old latest offset")
def old_latest_offset() -> Iterator[None]:
    """A leader that does not know what is committed answers with its own high watermark (KIP-207)."""
    healthy = list_offsets._find

    def find(
        replicas: ReplicaManager,
        request: ListOffsetsRequest,
        topic: str,
        partition: ListOffsetsRequest.Partition,
    ) -> TimestampAndOffset | None:
        hosted = replicas.find(topic, partition.partition_index)
        start, hosted.leader_epoch_start = hosted.leader_epoch_start, None
        try:
            return healthy(replicas, request, topic, partition)
        finally:
            hosted.leader_epoch_start = start

    with patched(list_offsets, "_find", find):
        yield


@_planted("acks=all is acks=1")
def acknowledged_at_once() -> Iterator[None]:
    """The leader acknowledges what only it has."""
    healthy = Partition.acknowledged

    def acknowledged(self: Partition[Log], required_offset: int) -> ErrorCode | None:
        code = healthy(self, required_offset)
        return ErrorCode.NONE if code is None else code

    with patched(Partition, "acknowledged", acknowledged):
        yield


@_planted("a leaving replica counts no more at once")
def leaves_at_once() -> Iterator[None]:
    """The leader commits without a lagging replica before the controller has agreed."""
    healthy = Partition.propose_leaving

    def propose(self: Partition[Log], now_ns: int) -> bool:
        proposed = healthy(self, now_ns)
        if proposed and self.proposal is not None:
            self.maximal_isr = frozenset(broker_id for broker_id, _ in self.proposal.isr)
        return proposed

    with patched(Partition, "propose_leaving", propose):
        yield


@_planted("unflushed records count", 4)
def unflushed_counts() -> Iterator[None]:
    """With flush.messages=1 the leader counts what a power loss would take from it."""
    with patched(Partition, "flushed_end", lambda self, log: log.end_offset):
        yield


@_planted("the controller elects any live replica", 2)
def elects_any() -> Iterator[None]:
    """A replica outside the ISR becomes the leader if there is no other, though that is not allowed."""
    healthy = PartitionChange._choose_leader

    def choose(self: PartitionChange) -> tuple[int, bool]:
        leader, is_unclean = healthy(self)
        if leader == NO_LEADER:
            for replica in self.replicas:
                if self._is_acceptable(replica):
                    return replica, True
        return leader, is_unclean

    with patched(PartitionChange, "_choose_leader", choose):
        yield


@_planted("a topic's folder is kept for the next of its name", 4)
def folder_kept() -> Iterator[None]:
    """The log of a deleted topic is taken for that of the topic made again (16157)."""
    healthy = ReplicaManager._host

    def host(self: ReplicaManager, name: tuple[str, int], topic_id: Uuid) -> Hosted:
        hosted = healthy(self, name, topic_id)  # type: ignore[arg-type]
        log = self.storage.manager.logs.get(name)  # type: ignore[call-overload]
        if log is not None:
            hosted.log = log
        return hosted

    with (
        patched(ReplicaManager, "_host", host),
        patched(ReplicaManager, "_remove", lambda self, name, partition: self.partitions.pop(name)),
    ):
        yield


@_planted("a restarted broker stays in the ISR", 115)
def restart_keeps_isr() -> Iterator[None]:
    """A broker registers again, and its partitions are left as they were."""
    with patched(brokers, "_handle_shutdown", lambda *_: []):
        yield
