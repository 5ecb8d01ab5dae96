"""Incremental fetch sessions (KIP-227): a broker remembers what a consumer fetches, so that requests carry
only changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.base.ids import Uuid
from barnabas.client.model import TopicPartition
from barnabas.protocol.messages.fetch import FetchRequest

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1
# From this version on topics are identified by id (KIP-516).
TOPIC_ID_VERSION = 13


class FetchPart(NamedTuple):
    """The fetch parameters of one partition."""

    topic_id: Uuid
    fetch_offset: int
    log_start_offset: int
    max_bytes: int
    leader_epoch: int


class FetchSession:
    """The session with one broker."""

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self._sent: dict[TopicPartition, FetchPart] = {}
        self._names: dict[Uuid, str] = {}

    def next(
        self, wanted: Mapping[TopicPartition, FetchPart]
    ) -> tuple[list[FetchRequest.Topic], list[FetchRequest.ForgottenTopic]]:
        """Return the changes that bring the broker's session to `wanted`."""
        if self.epoch == INITIAL_EPOCH:
            changed = dict(wanted)
            forgotten: list[TopicPartition] = []
        else:
            sent = self._sent
            changed = {partition: part for partition, part in wanted.items() if sent.get(partition) != part}
            forgotten = [partition for partition in sent if partition not in wanted]
            # A re-created topic is a different one to the broker.
            forgotten += [
                partition
                for partition in changed
                if partition in sent and sent[partition].topic_id != changed[partition].topic_id
            ]
        removed = _forgotten(forgotten, self._sent)
        self._sent = dict(wanted)
        self._names = {part.topic_id: partition.topic for partition, part in wanted.items()}
        return _topics(changed), removed

    def name_of(self, topic_id: Uuid) -> str | None:
        return self._names.get(topic_id)

    def accepted(self, session_id: int) -> None:
        """Called when the broker has accepted the request."""
        if session_id == NO_SESSION:
            self.reset()
        else:
            self.id = session_id
            self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def reset(self) -> None:
        """Start a new session: the broker has dropped this one, or its state is unknown."""
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self._sent = {}


def _topics(parts: Mapping[TopicPartition, FetchPart]) -> list[FetchRequest.Topic]:
    results: dict[str, FetchRequest.Topic] = {}
    for partition, part in parts.items():
        topic = results.get(partition.topic)
        if topic is None:
            topic = FetchRequest.Topic(topic=partition.topic, topic_id=part.topic_id, partitions=[])
            results[partition.topic] = topic
        topic.partitions.append(
            FetchRequest.Partition(
                partition=partition.partition,
                current_leader_epoch=part.leader_epoch,
                fetch_offset=part.fetch_offset,
                log_start_offset=part.log_start_offset,
                partition_max_bytes=part.max_bytes,
            )
        )
    return list(results.values())


def _forgotten(
    removed: list[TopicPartition], sent: Mapping[TopicPartition, FetchPart]
) -> list[FetchRequest.ForgottenTopic]:
    results: dict[tuple[str, Uuid], FetchRequest.ForgottenTopic] = {}
    for partition in removed:
        topic_id = sent[partition].topic_id
        topic = results.get((partition.topic, topic_id))
        if topic is None:
            topic = FetchRequest.ForgottenTopic(topic=partition.topic, topic_id=topic_id, partitions=[])
            results[partition.topic, topic_id] = topic
        topic.partitions.append(partition.partition)
    return list(results.values())
