"""Incremental fetches (KIP-227): a broker remembers what a consumer reads, so that only changes are told.

What lives here: what was told last, and what has changed since.  What may not: when to fetch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.client.model import TopicPartition
from barnabas.protocol.messages.fetch import FetchRequest

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1
# From here on topics are named by their ids (KIP-516).
TOPIC_ID_VERSION = 13


class FetchPart(NamedTuple):
    """What is asked of one partition."""

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
        self._told: dict[TopicPartition, FetchPart] = {}
        self._names: dict[Uuid, str] = {}

    def next(
        self, wanted: Mapping[TopicPartition, FetchPart]
    ) -> tuple[list[FetchRequest.Topic], list[FetchRequest.ForgottenTopic]]:
        """What to tell the broker, so that it reads what is wanted now."""
        if self.epoch == INITIAL_EPOCH:
            changed = dict(wanted)
            forgotten: list[TopicPartition] = []
        else:
            told = self._told
            changed = {where: part for where, part in wanted.items() if told.get(where) != part}
            forgotten = [where for where in told if where not in wanted]
            # A topic that was created anew is another one to the broker.
            forgotten += [
                where
                for where in changed
                if where in told and told[where].topic_id != changed[where].topic_id
            ]
        removed = _forgotten(forgotten, self._told)
        self._told = dict(wanted)
        self._names = {part.topic_id: where.topic for where, part in wanted.items()}
        return _topics(changed), removed

    def name_of(self, topic_id: Uuid) -> str | None:
        return self._names.get(topic_id)

    def answered(self, session_id: int) -> None:
        """The broker has taken it in."""
        if session_id == NO_SESSION:
            self.reset()
        else:
            self.id = session_id
            self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def reset(self) -> None:
        """Start anew: the broker has forgotten it, or nobody knows what the broker has heard."""
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self._told = {}


def _topics(parts: Mapping[TopicPartition, FetchPart]) -> list[FetchRequest.Topic]:
    found: dict[str, FetchRequest.Topic] = {}
    for where, part in parts.items():
        topic = found.get(where.topic)
        if topic is None:
            topic = FetchRequest.Topic(topic=where.topic, topic_id=part.topic_id, partitions=[])
            found[where.topic] = topic
        topic.partitions.append(
            FetchRequest.Partition(
                partition=where.partition,
                current_leader_epoch=part.leader_epoch,
                fetch_offset=part.fetch_offset,
                log_start_offset=part.log_start_offset,
                partition_max_bytes=part.max_bytes,
            )
        )
    return list(found.values())


def _forgotten(
    removed: list[TopicPartition], told: Mapping[TopicPartition, FetchPart]
) -> list[FetchRequest.ForgottenTopic]:
    found: dict[tuple[str, Uuid], FetchRequest.ForgottenTopic] = {}
    for where in removed:
        topic_id = told[where].topic_id if where in told else ZERO_UUID
        topic = found.get((where.topic, topic_id))
        if topic is None:
            topic = FetchRequest.ForgottenTopic(topic=where.topic, topic_id=topic_id, partitions=[])
            found[where.topic, topic_id] = topic
        topic.partitions.append(where.partition)
    return list(found.values())
