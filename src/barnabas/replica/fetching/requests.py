"""The requests of a follower: Fetch, and ListOffsets for an offset that the leader does not have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.replica.fetching.fetch_session import FetchPosition, FollowerSession, PartitionKey
from barnabas.replica.fetching.fetch_state import FetchState, Phase
from barnabas.storage.log.log_reader import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

# From this version on topics have ids; responses contain divergence since version 12.
LOWEST_FETCH_VERSION = 13
FIRST_VERSION_WITH_REPLICA_STATE = 15


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """The options of a broker's fetchers."""

    # replica.fetch.wait.max.ms, .min.bytes, .response.max.bytes, .max.bytes, .backoff.ms
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 10_485_760
    partition_max_bytes: int = 1_048_576
    backoff_ms: int = 1_000


def fetch_request(
    session: FollowerSession,
    positions: Iterable[tuple[PartitionKey, FetchPosition]],
    forgotten: Iterable[PartitionKey],
    options: FetchOptions,
    max_wait_ms: int,
) -> FetchRequest:
    """A fetch in this session, without its sender."""
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=options.min_bytes,
        max_bytes=options.max_bytes,
        session_id=session.id,
        session_epoch=session.epoch,
        topics=_topics_of(positions, options.partition_max_bytes),
        forgotten_topics_data=_forgotten_topics_of(forgotten),
    )


def identified(request: FetchRequest, version: int, broker_id: int, broker_epoch: int) -> FetchRequest:
    """The request with its sender, for a version.

    By the broker epoch a leader recognizes fetches of a broker that has restarted since (KIP-903).
    """
    if version < LOWEST_FETCH_VERSION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the leader supports Fetch up to version {version}; replication needs {LOWEST_FETCH_VERSION}",
        )
    if version >= FIRST_VERSION_WITH_REPLICA_STATE:
        request.replica_state = FetchRequest.ReplicaState(replica_id=broker_id, replica_epoch=broker_epoch)
    else:
        request.replica_id = broker_id
    return request


def offsets_request(states: Iterable[FetchState], broker_id: int) -> ListOffsetsRequest:
    """For each partition the end of the leader's log, or then its start."""
    topics: dict[str, ListOffsetsRequest.Topic] = {}
    for state in states:
        name = state.partition.topic
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = ListOffsetsRequest.Topic(name=name, partitions=[])
        is_latest = state.phase is Phase.LATEST
        topic.partitions.append(
            ListOffsetsRequest.Partition(
                partition_index=state.partition.index,
                current_leader_epoch=state.leader_epoch,
                timestamp=LATEST_TIMESTAMP if is_latest else EARLIEST_TIMESTAMP,
            )
        )
    return ListOffsetsRequest(replica_id=broker_id, isolation_level=0, topics=list(topics.values()))


def _topics_of(
    positions: Iterable[tuple[PartitionKey, FetchPosition]], max_bytes: int
) -> list[FetchRequest.Topic]:
    """The partitions of a request, grouped by topic."""
    topics: dict[Uuid, FetchRequest.Topic] = {}
    for (topic_id, index), position in positions:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchRequest.Topic(topic_id=topic_id, partitions=[])
        topic.partitions.append(
            FetchRequest.Partition(
                partition=index,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.offset,
                last_fetched_epoch=position.last_epoch,
                log_start_offset=position.log_start_offset,
                partition_max_bytes=max_bytes,
            )
        )
    return list(topics.values())


def _forgotten_topics_of(keys: Iterable[PartitionKey]) -> list[FetchRequest.ForgottenTopic]:
    """The partitions that the session no longer has, grouped by topic."""
    topics: dict[Uuid, FetchRequest.ForgottenTopic] = {}
    for topic_id, index in keys:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchRequest.ForgottenTopic(topic_id=topic_id, partitions=[])
        topic.partitions.append(index)
    return list(topics.values())
