"""The metadata cache: the newest responses, never reverting to older leader epochs.

Requests for metadata belong in `cluster`.
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
        self.updated_at = NEVER
        self.is_expired = True
        # Incremented with every response.
        self.generation = 0

    def expire(self) -> None:
        """Called when cached metadata turned out to be wrong."""
        self.is_expired = True

    def leader_of(self, partition: TopicPartition) -> Partition | None:
        """Return the partition if it has a live leader."""
        topic = self.topics.get(partition.topic)
        known = topic.partition_of.get(partition.partition) if topic is not None else None
        return known if known is not None and known.leader in self.brokers else None

    def update(self, response: MetadataResponse, now: float) -> None:
        """Replace the cache by a response; topics that it does not contain are removed."""
        self.brokers = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
        }
        self.controller_id = response.controller_id
        named = [topic for topic in response.topics if topic.name is not None]
        self.topics = {topic.name or "": self._topic(topic) for topic in named}
        self.names = {topic.id: name for name, topic in self.topics.items() if topic.id != ZERO_UUID}
        self.updated_at = now
        self.is_expired = False
        self.generation += 1

    def _topic(self, topic: MetadataResponse.Topic) -> Topic:
        name = topic.name or ""
        former = self.topics.get(name)
        if (
            topic.error_code
            and topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            and former is not None
        ):
            # A temporary error: the previous partitions are still the best guess.
            return Topic(
                name, former.id, former.is_internal, former.partitions, topic.error_code, former.partition_of
            )
        same = former is not None and former.id == topic.topic_id
        partitions = []
        for partition in sorted(topic.partitions, key=lambda each: each.partition_index):
            known = (
                former.partition_of.get(partition.partition_index) if same and former is not None else None
            )
            partitions.append(_newer(name, partition, known))
        return Topic(
            name,
            topic.topic_id,
            topic.is_internal,
            tuple(partitions),
            topic.error_code,
            {partition.number: partition for partition in partitions},
        )


def _newer(topic: str, partition: MetadataResponse.Partition, known: Partition | None) -> Partition:
    """A lagging broker must not bring back an older leader (KIP-320)."""
    if known is not None and 0 <= partition.leader_epoch < known.leader_epoch:
        return known
    return Partition(
        topic,
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
        partition.error_code,
    )
