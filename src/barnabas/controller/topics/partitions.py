"""CreatePartitions: each topic is handled or rejected individually; the records form one batch."""

from __future__ import annotations

from collections import Counter

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.decision import NO_ERROR, ApiError, Context, Decision, too_large
from barnabas.controller.state import ControllerState
from barnabas.controller.topics.assignments import (
    check_assignment,
    choose_placements,
    manual_partition,
    placed_partitions,
)
from barnabas.controller.topics.mutation_quotas import MutationQuota, NoMutationQuota
from barnabas.controller.topics.topics import MAX_PARTITIONS_PER_REQUEST, mutation_quota
from barnabas.metadata.topics import Partition
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from barnabas.protocol.schema import Message

CreatePartitionsTopic = CreatePartitionsRequest.Topic
Result = CreatePartitionsResponse.TopicResult
# From this version on a client knows THROTTLING_QUOTA_EXCEEDED (KIP-599).
STRICT_QUOTA_VERSION = 3


def create_partitions(state: ControllerState, request: CreatePartitionsRequest, context: Context) -> Decision:
    """CreatePartitions (KIP-195)."""
    counts = Counter(topic.name for topic in request.topics)
    results = [
        _result(name, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        for name, count in counts.items()
        if count > 1
    ]
    records: list[Message] = []
    quota = mutation_quota(state, context, STRICT_QUOTA_VERSION, validate_only=request.validate_only)
    for topic in request.topics:
        if counts[topic.name] == 1:
            results.append(_result(topic.name, _add_partitions(state, topic, records, quota)))
    reply = CreatePartitionsResponse(throttle_time_ms=quota.throttle_ms, results=results)
    return Decision([] if request.validate_only else records, reply)


def _result(name: str, api_error: ApiError) -> Result:
    return Result(name=name, error_code=api_error.code, error_message=api_error.message)


def _add_partitions(
    state: ControllerState,
    requested: CreatePartitionsTopic,
    records: list[Message],
    quota: MutationQuota | NoMutationQuota,
) -> ApiError:
    try:
        records += _new_records(state, requested, quota)
    except KafkaError as error:
        if error.code is ErrorCode.POLICY_VIOLATION:
            raise
        return ApiError.of(error)
    return NO_ERROR


def _new_records(
    state: ControllerState, requested: CreatePartitionsTopic, quota: MutationQuota | NoMutationQuota
) -> list[Message]:
    topic = state.image.topic_named(requested.name)
    if topic is None or topic.name in state.deleting:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    policy = state.options.policy
    if requested.count <= present:
        said = policy.as_many_partitions if requested.count == present else policy.fewer_partitions
        text = said.format(name=requested.name, present=present, wanted=requested.count)
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, text)
    additional = requested.count - present
    if requested.assignments is not None and len(requested.assignments) != additional:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(requested.assignments)}"
            " assignment(s) were specified.",
        )
    quota.record(additional)
    if additional > MAX_PARTITIONS_PER_REQUEST:
        # Checked before placement because the count is untrusted input.
        raise too_large()
    partitions = _partitions(state, requested, present, len(topic.partitions[0].replicas))
    level = state.image.metadata_version
    return [
        partition.to_record(topic.id, number, level)
        for number, partition in enumerate(partitions, start=present)
    ]


def _partitions(
    state: ControllerState, requested: CreatePartitionsTopic, present: int, replication_factor: int
) -> list[Partition]:
    if requested.assignments is None:
        return placed_partitions(
            state, choose_placements(state, requested.count - present, replication_factor)
        )
    partitions = []
    for number, assignment in enumerate(requested.assignments, start=present):
        check_assignment(state, assignment.broker_ids, replication_factor)
        partitions.append(manual_partition(state, number, assignment.broker_ids))
    return partitions
