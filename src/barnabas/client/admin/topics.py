"""Topics: create, delete, list, describe, add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.client.admin.calls import AdminCalls, operations, outcome
from barnabas.client.admin.configs import ConfigEntry, source_of
from barnabas.client.errors.base import error_for
from barnabas.client.errors.cluster import UnsupportedVersionError
from barnabas.client.outcomes import Outcomes
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.security.acls import Operation

BROKER_DEFAULT = -1
PARTITIONS_PER_RESPONSE = 2000


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 means the broker's default, `assignments` places the replicas by hand."""

    name: str
    num_partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A created topic; numbers are -1 and `configs` is empty if the caller may not see them."""

    name: str
    id: Uuid
    num_partitions: int
    replication_factor: int
    configs: Mapping[str, ConfigEntry]


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A listed topic."""

    name: str
    id: Uuid
    is_internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition; `elr` and `last_known_elr` are None if the broker does not report them (KIP-966)."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions, ordered by number."""

    name: str
    id: Uuid
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: tuple[Operation, ...] | None = None


class TopicCalls(AdminCalls):
    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> Outcomes[str, CreatedTopic]:
        """Create topics, or only validate the request."""
        wanted = {topic.name: topic for topic in topics}
        limit_ms = self._deadline(timeout_ms).left_ms

        def request(names: list[str]) -> CreateTopicsRequest:
            return CreateTopicsRequest(
                topics=[_creatable(wanted[name]) for name in names],
                timeout_ms=limit_ms,
                validate_only=validate_only,
            )

        def read(response: CreateTopicsResponse, _: list[str]) -> Mapping[str, CreatedTopic | KafkaError]:
            return {
                topic.name: outcome(topic.error_code, topic.error_message, _created(topic))
                for topic in response.topics
            }

        return await self._through_controller(wanted, request, CreateTopicsResponse, read, timeout_ms)

    async def delete_topics(
        self, topics: Iterable[str | Uuid], *, timeout_ms: int | None = None
    ) -> Outcomes[str | Uuid, None]:
        """Delete topics by name or by id."""
        limit_ms = self._deadline(timeout_ms).left_ms

        def request(keys: list[str | Uuid]) -> DeleteTopicsRequest:
            names = [key for key in keys if isinstance(key, str)]
            states = [
                DeleteTopicsRequest.DeleteTopicState(name=key, topic_id=ZERO_UUID)
                if isinstance(key, str)
                else DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=key)
                for key in keys
            ]
            return DeleteTopicsRequest(topics=states, topic_names=names, timeout_ms=limit_ms)

        def read(
            response: DeleteTopicsResponse, keys: list[str | Uuid]
        ) -> Mapping[str | Uuid, KafkaError | None]:
            results: dict[str | Uuid, KafkaError | None] = {}
            for result in response.responses:
                key = result.topic_id if result.topic_id in keys else result.name or ""
                results[key] = outcome(result.error_code, result.error_message, None)
            return results

        return await self._through_controller(topics, request, DeleteTopicsResponse, read, timeout_ms)

    async def list_topics(
        self, *, include_internal: bool = False, timeout_ms: int | None = None
    ) -> dict[str, TopicListing]:
        """Return every topic that the caller may see."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        response = await self._send_to_any(request, MetadataResponse, timeout_ms)
        return {
            topic.name: TopicListing(topic.name, topic.topic_id, topic.is_internal)
            for topic in response.topics
            if topic.name is not None and (include_internal or not topic.is_internal)
        }

    async def describe_topics(
        self,
        topics: Iterable[str | Uuid],
        *,
        include_authorized_operations: bool = False,
        partition_size_limit_per_response: int = PARTITIONS_PER_RESPONSE,
        timeout_ms: int | None = None,
    ) -> Outcomes[str | Uuid, TopicDescription]:
        """Describe topics; by name also with ELR if the broker reports it (KIP-966)."""
        keys = list(dict.fromkeys(topics))
        names = [key for key in keys if isinstance(key, str)]
        ids = [key for key in keys if not isinstance(key, str)]
        results: dict[str | Uuid, TopicDescription | KafkaError] = dict.fromkeys(
            keys, error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        )
        if names:
            try:
                described = await self._describe_pages(names, partition_size_limit_per_response, timeout_ms)
            except UnsupportedVersionError:
                described = await self._describe_names(names, include_authorized_operations, timeout_ms)
            results.update(described)
        if ids:
            results.update(await self._describe_ids(ids, include_authorized_operations, timeout_ms))
        return Outcomes(results)

    async def _describe_pages(
        self, names: list[str], page_size: int, timeout_ms: int | None
    ) -> dict[str, TopicDescription | KafkaError]:
        """Page through DescribeTopicPartitions, which limits the partitions per response."""
        results: dict[str, TopicDescription | KafkaError] = {}
        cursor: DescribeTopicPartitionsRequest.Cursor | None = None
        while True:
            request = DescribeTopicPartitionsRequest(
                topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in sorted(names)],
                response_partition_limit=page_size,
                cursor=cursor,
            )
            response = await self._send_to_any(request, DescribeTopicPartitionsResponse, timeout_ms)
            for topic in response.topics:
                _add_page(results, topic)
            following = response.next_cursor
            if following is None:
                return results
            cursor = DescribeTopicPartitionsRequest.Cursor(
                topic_name=following.topic_name, partition_index=following.partition_index
            )

    async def _describe_names(
        self, names: list[str], with_operations: bool, timeout_ms: int | None
    ) -> dict[str, TopicDescription | KafkaError]:
        request = MetadataRequest(
            topics=[MetadataRequest.Topic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=with_operations,
        )
        response = await self._send_to_any(request, MetadataResponse, timeout_ms)
        return {
            topic.name: outcome(topic.error_code, None, _described(topic))
            for topic in response.topics
            if topic.name is not None
        }

    async def _describe_ids(
        self, ids: list[Uuid], with_operations: bool, timeout_ms: int | None
    ) -> dict[str | Uuid, TopicDescription | KafkaError]:
        request = MetadataRequest(
            topics=[MetadataRequest.Topic(topic_id=topic_id, name=None) for topic_id in ids],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=with_operations,
        )
        response = await self._send_to_any(request, MetadataResponse, timeout_ms)
        return {
            topic.topic_id: outcome(topic.error_code, None, _described(topic)) for topic in response.topics
        }

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, None]:
        """Raise the number of partitions of topics; `assignments` places the replicas of each new
        partition."""
        limit_ms = self._deadline(timeout_ms).left_ms

        def request(names: list[str]) -> CreatePartitionsRequest:
            return CreatePartitionsRequest(
                topics=[_grown(name, counts[name], (assignments or {}).get(name)) for name in names],
                timeout_ms=limit_ms,
                validate_only=validate_only,
            )

        def read(response: CreatePartitionsResponse, _: list[str]) -> Mapping[str, KafkaError | None]:
            return {
                result.name: outcome(result.error_code, result.error_message, None)
                for result in response.results
            }

        return await self._through_controller(counts, request, CreatePartitionsResponse, read, timeout_ms)


def _creatable(topic: NewTopic) -> CreateTopicsRequest.CreatableTopic:
    placed = topic.assignments or {}
    return CreateTopicsRequest.CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=number, broker_ids=list(brokers))
            for number, brokers in placed.items()
        ],
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
            for name, value in topic.configs.items()
        ],
    )


def _created(topic: CreateTopicsResponse.CreatableTopicResult) -> CreatedTopic:
    configs = {
        each.name: ConfigEntry(
            each.name, each.value, source_of(each.config_source), each.is_sensitive, each.read_only
        )
        for each in topic.configs or ()
    }
    return CreatedTopic(topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor, configs)


def _grown(name: str, count: int, placed: Sequence[Sequence[int]] | None) -> CreatePartitionsRequest.Topic:
    assignments = None
    if placed is not None:
        assignments = [CreatePartitionsRequest.Assignment(broker_ids=list(brokers)) for brokers in placed]
    return CreatePartitionsRequest.Topic(name=name, count=count, assignments=assignments)


def _described(topic: MetadataResponse.Topic) -> TopicDescription:
    partitions = tuple(
        PartitionDescription(
            partition.partition_index,
            partition.leader_id if partition.leader_id >= 0 else None,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
        )
        for partition in sorted(topic.partitions, key=lambda each: each.partition_index)
    )
    allowed = _operations(topic.topic_authorized_operations)
    return TopicDescription(topic.name or "", topic.topic_id, topic.is_internal, partitions, allowed)


def _add_page(
    descriptions: dict[str, TopicDescription | KafkaError], topic: DescribeTopicPartitionsResponse.Topic
) -> None:
    name = topic.name or ""
    if topic.error_code:
        descriptions[name] = error_for(topic.error_code)
        return
    former = descriptions.get(name)
    before = former.partitions if isinstance(former, TopicDescription) else ()
    partitions = tuple(
        PartitionDescription(
            partition.partition_index,
            partition.leader_id if partition.leader_id >= 0 else None,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
            None if partition.eligible_leader_replicas is None else tuple(partition.eligible_leader_replicas),
            None if partition.last_known_elr is None else tuple(partition.last_known_elr),
        )
        for partition in topic.partitions
    )
    allowed = _operations(topic.topic_authorized_operations)
    descriptions[name] = TopicDescription(
        name, topic.topic_id, topic.is_internal, before + partitions, allowed
    )


def _operations(bits: int) -> tuple[Operation, ...] | None:
    numbers = operations(bits)
    return None if numbers is None else tuple(Operation(number) for number in numbers)
