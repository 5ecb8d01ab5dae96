"""CreateTopics: validates names, counts, assignments and configs, and turns them into records.

The order of the checks and their messages are Apache Kafka's.  A rejected topic does not prevent the others
from being created; the records of all form one batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.topic_names import CLUSTER_METADATA, check_topic_name
from barnabas.controller.configs.configs import OpType, alter_resource
from barnabas.controller.configs.policies import NewTopic
from barnabas.controller.decision import ApiError, Context, Decision
from barnabas.controller.state import ControllerState
from barnabas.controller.topics.assignments import (
    check_assignment,
    choose_placements,
    manual_partition,
    placed_partitions,
)
from barnabas.controller.topics.mutation_quotas import NO_MUTATION_QUOTA, MutationQuota, NoMutationQuota
from barnabas.metadata.image import ConfigResource
from barnabas.metadata.topics import Partition
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.records.metadata import TopicRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.random import random_uuid

# The maximum number of partitions per request (Apache Kafka's limit).
MAX_PARTITIONS_PER_REQUEST = 10_000
USE_DEFAULT = -1
# From this version on a client knows THROTTLING_QUOTA_EXCEEDED (KIP-599).
STRICT_QUOTA_VERSION = 6

CreatableTopic = CreateTopicsRequest.CreatableTopic
Result = CreateTopicsResponse.CreatableTopicResult


def create_topics(state: ControllerState, request: CreateTopicsRequest, context: Context) -> Decision:
    """CreateTopics (KIP-4; KIP-525 for the configs in the response)."""
    counts = Counter(topic.name for topic in request.topics)
    accepted = [
        topic for topic in request.topics if counts[topic.name] == 1 and topic.name != CLUSTER_METADATA
    ]
    _check_total(accepted, state.settings["num.partitions"])
    records: list[Message] = []
    quota = mutation_quota(state, context, STRICT_QUOTA_VERSION, validate_only=request.validate_only)
    results = [_create(state, topic, records, quota) for topic in accepted]
    for name, count in counts.items():
        if count > 1:
            results.append(_rejection(name, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")))
        elif name == CLUSTER_METADATA:
            message = f"Creation of internal topic {CLUSTER_METADATA} is prohibited."
            results.append(_rejection(name, ApiError(ErrorCode.INVALID_REQUEST, message)))
    reply = CreateTopicsResponse(throttle_time_ms=quota.throttle_ms, topics=results)
    return Decision([] if request.validate_only else records, reply)


def mutation_quota(
    state: ControllerState, context: Context, strict_from: int, *, validate_only: bool
) -> MutationQuota | NoMutationQuota:
    """The quota that counts the partitions of a request."""
    if validate_only and not state.options.policy.counts_validated_mutations:
        return NO_MUTATION_QUOTA
    return state.mutation_quotas.of(state.image, context, strict_from=strict_from)


def _check_total(topics: Sequence[CreatableTopic], default: int) -> None:
    total = 0
    for topic in topics:
        if topic.assignments:
            total += len(topic.assignments)
        else:
            total += default if topic.num_partitions == USE_DEFAULT else max(topic.num_partitions, 0)
    if total > MAX_PARTITIONS_PER_REQUEST:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def _rejection(name: str, api_error: ApiError) -> Result:
    return Result(name=name, error_code=api_error.code, error_message=api_error.message)


def _create(
    state: ControllerState,
    topic: CreatableTopic,
    records: list[Message],
    quota: MutationQuota | NoMutationQuota,
) -> Result:
    try:
        _check_new_name(state, topic.name)
        config_records = _config_records(state, topic)
        partitions = _partitions(state, topic)
        quota.record(len(partitions))
    except KafkaError as error:
        return _rejection(topic.name, ApiError.of(error))
    topic_id = random_uuid(state.random)
    records.append(TopicRecord(name=topic.name, topic_id=topic_id))
    records += config_records
    level = state.image.metadata_version
    records += [
        partition.to_record(topic_id, number, level) for number, partition in sorted(partitions.items())
    ]
    result = Result(name=topic.name, topic_id=topic_id, error_code=0, error_message=None)
    result.num_partitions = len(partitions)
    result.replication_factor = len(partitions[0].replicas)
    overrides = [(config.name, config.value or "") for config in topic.configs]
    result.configs = state.described_configs.of(state.layers, overrides)
    return result


def _check_new_name(state: ControllerState, name: str) -> None:
    if name in state.image.topic_ids:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = state.colliding.find(name)
    if other is not None:
        text = state.options.policy.colliding_topic.format(name=name, other=other)
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    check_topic_name(name)


def _config_records(state: ControllerState, topic: CreatableTopic) -> list[Message]:
    without_value = [config.name for config in topic.configs if config.value is None]
    if without_value:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(without_value)}",
        )
    if not topic.configs:
        return []
    changes = {config.name: (OpType.SET, config.value) for config in topic.configs}
    return alter_resource(state, (ConfigResource.TOPIC, topic.name), changes, is_new=True)


def _partitions(state: ControllerState, topic: CreatableTopic) -> dict[int, Partition]:
    policy = state.options.create_topic_policy
    configs = {config.name: config.value for config in topic.configs}
    if topic.assignments:
        partitions = _manual_partitions(state, topic)
        if policy is not None:
            assignments = {number: partition.replicas for number, partition in partitions.items()}
            policy(NewTopic(topic.name, None, None, assignments, configs))
        return partitions
    if topic.replication_factor < USE_DEFAULT or topic.replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < USE_DEFAULT or topic.num_partitions == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    count, replication_factor = _counts(state, topic)
    partitions = dict(enumerate(_placed_partitions(state, count, replication_factor)))
    if policy is not None:
        policy(NewTopic(topic.name, count, replication_factor, None, configs))
    return partitions


def _counts(state: ControllerState, topic: CreatableTopic) -> tuple[int, int]:
    """The requested counts, or the defaults from the broker configs."""
    count, replication_factor = topic.num_partitions, topic.replication_factor
    if count == USE_DEFAULT:
        count = state.settings["num.partitions"]
    if replication_factor == USE_DEFAULT:
        replication_factor = state.settings["default.replication.factor"]
    return count, replication_factor


def _placed_partitions(state: ControllerState, count: int, replication_factor: int) -> list[Partition]:
    try:
        chosen = choose_placements(state, count, replication_factor)
    except KafkaError as error:
        prefix = state.options.policy.placement_refused.format(wanted=replication_factor)
        raise KafkaError(error.code, prefix + error.message) from error
    return placed_partitions(state, chosen)


def _manual_partitions(state: ControllerState, topic: CreatableTopic) -> dict[int, Partition]:
    prefix = "A manual partition assignment was specified, but"
    if topic.replication_factor != USE_DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{prefix} replication factor was not set to {USE_DEFAULT}."
        )
    if topic.num_partitions != USE_DEFAULT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{prefix} numPartitions was not set to {USE_DEFAULT}.")
    partitions: dict[int, Partition] = {}
    replication_factor = None
    for assignment in topic.assignments:
        number = assignment.partition_index
        if number in partitions:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {number}",
            )
        check_assignment(state, assignment.broker_ids, replication_factor)
        replication_factor = len(assignment.broker_ids)
        partitions[number] = manual_partition(state, number, assignment.broker_ids)
    if set(partitions) != set(range(len(partitions))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return partitions
