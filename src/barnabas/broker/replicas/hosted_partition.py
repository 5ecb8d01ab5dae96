"""A partition on this broker, and the transitions that the controller's decisions require.

Contains data only; transitions are executed in transitions.py, replication belongs in replica/partition.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from barnabas.base.ids import Uuid
from barnabas.base.topic_names import is_internal
from barnabas.metadata.topics import Partition as PartitionState
from barnabas.replica.partition import Partition, Rules
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition


class Traffic:
    """The traffic of one topic on this broker, for metrics; counters only grow."""

    __slots__ = ("bytes_in", "bytes_out", "fetches", "partitions", "produces", "records_in")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.records_in = 0
        self.produces = 0
        self.fetches = 0
        # The number of the topic's partitions on this broker.
        self.partitions = 0


class Hosted(Partition[Log]):
    """A partition with a replica on this broker."""

    __slots__ = ("damage", "is_internal", "is_offline", "traffic")

    def __init__(self, topic: str, index: int, topic_id: Uuid, rules: Rules, traffic: Traffic) -> None:
        super().__init__(topic, index, topic_id, rules)
        self.traffic = traffic
        # Its log is, or may be, in an offline directory.
        self.is_offline = False
        # The last error of its records that was logged.
        self.damage = ""
        # An internal topic; clients may not write to it.
        self.is_internal = is_internal(topic)

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.index)


class Become(Enum):
    """The role of a replica after a delta."""

    LEADER = "leader"
    FOLLOWER = "follower"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Transition:
    """The transition of one partition; it has a state unless the replica is removed."""

    become: Become
    topic: str
    topic_id: Uuid
    index: int
    state: PartitionState | None
