"""One partition on this broker, and the words in which the controller's decisions about it are told.

What lives here: plain data.  What may not: carrying a decision out (replicas.py) and the rules of replication
(replica/partition.py).
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
    """What went in and out of one topic here, for metrics; these only grow."""

    __slots__ = ("bytes_in", "bytes_out", "fetches", "partitions", "produces", "records_in")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.records_in = 0
        self.produces = 0
        self.fetches = 0
        # How many partitions of the topic are here.
        self.partitions = 0


class Hosted(Partition[Log]):
    """A partition that has a replica here."""

    __slots__ = ("damage", "is_internal", "is_offline", "traffic")

    def __init__(self, topic: str, index: int, topic_id: Uuid, rules: Rules, traffic: Traffic) -> None:
        super().__init__(topic, index, topic_id, rules)
        self.traffic = traffic
        # Its log is, or may be, in a directory that failed.
        self.is_offline = False
        # What was last found wrong with its records, and told to whoever runs the broker.
        self.damage = ""
        # The system itself writes it; clients may not.
        self.is_internal = is_internal(topic)

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.index)


class Become(Enum):
    """What a delta makes of a replica."""

    LEADER = "leader"
    FOLLOWER = "follower"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Transition:
    """One partition's way into a new state; a state is told unless the replica goes."""

    become: Become
    topic: str
    topic_id: Uuid
    index: int
    state: PartitionState | None
