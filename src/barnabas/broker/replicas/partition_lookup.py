"""Looks up partitions on this broker, or returns the error of those that it does not serve.

Also what this broker knows of the others that hold replicas: their epochs (KIP-903), racks, and whether they
are alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.context import ReplicaContext
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.storage.log.log import Log


class PartitionTable:
    """The partitions with a replica on this broker."""

    def __init__(self, broker: ReplicaContext) -> None:
        self._broker = broker
        self.broker_id = broker.node.node_id
        # By topic name and index; a TopicPartition is a valid key.
        self.partitions: dict[tuple[str, int], Hosted] = {}

    def find(self, topic: str, index: int) -> Hosted:
        """Returns the partition if it is hosted and its directory is online."""
        partition = self.partitions.get((topic, index))
        if partition is None or partition.is_offline:
            raise self.missing(topic, index)
        return partition

    def of_topics(self, topics: Iterable[str]) -> Iterator[Hosted]:
        """The partitions of these topics."""
        names = set(topics)
        if names:
            yield from (partition for partition in self.partitions.values() if partition.topic in names)

    def missing(self, topic: str, index: int) -> KafkaError:
        """Returns the error of a partition: unknown, on other brokers, or in an offline directory."""
        partition = self.partitions.get((topic, index))
        if partition is not None and partition.is_offline:
            text = f"Partition {topic}-{index} is in an offline log directory"
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)
        known = self._broker.image.topic_named(topic)
        if known is not None and index in known.partitions:
            text = f"{topic}-{index} has no replica on broker {self.broker_id}"
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def not_leader(self, partition: Hosted) -> KafkaError:
        """Returns the error of a hosted partition that accepts no records."""
        if partition.is_offline:
            return self.missing(partition.topic, partition.index)
        text = (
            f"Leader not local for partition {partition.topic}-{partition.index} on broker {self.broker_id}"
        )
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)

    def log_of(self, partition: Hosted, current_leader_epoch: int, *, leader_only: bool) -> Log:
        """Returns the log to read from; raises unless the client's epoch (-1: none) is current."""
        if current_leader_epoch != -1 and current_leader_epoch != partition.leader_epoch:
            is_old = current_leader_epoch < partition.leader_epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(
                code,
                f"{partition.topic}-{partition.index} is in leader epoch {partition.leader_epoch},"
                f" not {current_leader_epoch}",
            )
        log = partition.log
        if log is None or (leader_only and not partition.is_leader):
            raise self.not_leader(partition)
        return log

    # Other brokers

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> None:
        """Raises if a follower's request has a stale broker epoch (KIP-903)."""
        known = self._broker.image.brokers.get(broker_id)
        if broker_epoch != -1 and known is not None and not known.fenced and known.epoch > broker_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {broker_id} has the epoch {known.epoch} by now, not {broker_epoch}",
            )

    def is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether the broker with this epoch may be in an ISR (KIP-841, KIP-903)."""
        broker = self._broker.image.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            return False
        # In ZooKeeper mode no broker knows the epochs of others.
        return broker_epoch in (-1, broker.epoch) or broker.epoch == -1

    def rack_of(self, broker_id: int, listener: str) -> str | None:
        """The rack of a live broker with this listener; None if it has none."""
        broker = self._broker.image.brokers.get(broker_id)
        if broker is None or broker.fenced or all(end.name != listener for end in broker.endpoints):
            return None
        return broker.rack

    def is_alive(self, broker_id: int) -> bool:
        broker = self._broker.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced
