"""The cache of a cluster's metadata: what the newest answers tell, never going back in leader epochs.

What lives here: data and the rule by which it is replaced.  What may not: asking for it (cluster).
"""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.client.model import NO_NODE, Node, Partition, Topic, TopicPartition
from barnabas.protocol.messages.metadata import MetadataResponse

NEVER = float("-inf")


class Metadata:
    """Nodes and topics by name."""

    def __init__(self) -> None:
        self.brokers: dict[int, Node] = {}
        self.topics: dict[str, Topic] = {}
        self.names: dict[Uuid, str] = {}
        self.controller_id = NO_NODE
        self.cluster_id: str | None = None
        self.updated_at = NEVER
        self.is_expired = True
        # Grows with every answer.
        self.generation = 0

    def expire(self) -> None:
        """Something that was told turned out to be wrong."""
        self.is_expired = True

    def leader_of(self, partition: TopicPartition) -> Partition | None:
        """The partition, if it has a leader that is alive."""
        topic = self.topics.get(partition.topic)
        found = topic.partition_of.get(partition.partition) if topic is not None else None
        return found if found is not None and found.leader in self.brokers else None

    def take(self, answer: MetadataResponse, now: float) -> None:
        """Replace what an answer tells of; topics it does not mention are forgotten."""
        self.brokers = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in answer.brokers
        }
        self.controller_id = answer.controller_id
        self.cluster_id = answer.cluster_id
        told = [topic for topic in answer.topics if topic.name is not None]
        self.topics = {topic.name or "": self._topic(topic) for topic in told}
        self.names = {topic.id: name for name, topic in self.topics.items() if topic.id != ZERO_UUID}
        self.updated_at = now
        self.is_expired = False
        self.generation += 1

    def _topic(self, told: MetadataResponse.Topic) -> Topic:
        name = told.name or ""
        former = self.topics.get(name)
        if told.error_code and told.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and former is not None:
            # Told only that something is wrong for the moment: where it was is still the best guess.
            return Topic(
                name, former.id, former.is_internal, former.partitions, told.error_code, former.partition_of
            )
        same = former is not None and former.id == told.topic_id
        partitions = []
        for one in sorted(told.partitions, key=lambda each: each.partition_index):
            known = former.partition_of.get(one.partition_index) if same and former is not None else None
            partitions.append(_newer(name, one, known))
        return Topic(
            name,
            told.topic_id,
            told.is_internal,
            tuple(partitions),
            told.error_code,
            {one.number: one for one in partitions},
        )


def _newer(topic: str, told: MetadataResponse.Partition, known: Partition | None) -> Partition:
    """A broker that lags behind must not lead us back to an older leader (KIP-320)."""
    if known is not None and 0 <= told.leader_epoch < known.leader_epoch:
        return known
    return Partition(
        topic,
        told.partition_index,
        told.leader_id,
        told.leader_epoch,
        tuple(told.replica_nodes),
        tuple(told.isr_nodes),
        tuple(told.offline_replicas),
        told.error_code,
    )
