"""CreatePartitions: a topic grows.  Each topic is refused by itself; the records go into one batch."""

from __future__ import annotations

from collections import Counter

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.decision import NO_FAULT, Context, Decision, Fault, too_large
from barnabas.controller.state import ControllerState
from barnabas.controller.topics.assignments import assigned, check_assignment, placed, placements
from barnabas.controller.topics.topics import MAX_PARTITIONS_PER_REQUEST
from barnabas.metadata.topics import Partition
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from barnabas.protocol.schema import Message

Asked = CreatePartitionsRequest.Topic
Result = CreatePartitionsResponse.TopicResult


def create_partitions(state: ControllerState, request: CreatePartitionsRequest, context: Context) -> Decision:
    """CreatePartitions (KIP-195)."""
    counts = Counter(topic.name for topic in request.topics)
    results = [
        _result(name, Fault(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        for name, count in counts.items()
        if count > 1
    ]
    records: list[Message] = []
    for topic in request.topics:
        if counts[topic.name] == 1:
            results.append(_result(topic.name, _grow(state, topic, records)))
    reply = CreatePartitionsResponse(throttle_time_ms=0, results=results)
    return Decision([] if request.validate_only else records, reply)


def _result(name: str, fault: Fault) -> Result:
    return Result(name=name, error_code=fault.code, error_message=fault.message)


def _grow(state: ControllerState, asked: Asked, records: list[Message]) -> Fault:
    try:
        records += _new_records(state, asked)
    except KafkaError as error:
        if error.code is ErrorCode.POLICY_VIOLATION:
            raise
        return Fault.of(error)
    return NO_FAULT


def _new_records(state: ControllerState, asked: Asked) -> list[Message]:
    topic = state.image.topic_named(asked.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    if asked.count == present:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if asked.count < present:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {asked.name} currently has {present} partition(s); {asked.count} would not be an"
            " increase.",
        )
    additional = asked.count - present
    if asked.assignments is not None and len(asked.assignments) != additional:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(asked.assignments)}"
            " assignment(s) were specified.",
        )
    if additional > MAX_PARTITIONS_PER_REQUEST:
        # Before they are placed: a count comes from outside.
        raise too_large()
    partitions = _partitions(state, asked, present, len(topic.partitions[0].replicas))
    return [
        partition.to_record(topic.id, number) for number, partition in enumerate(partitions, start=present)
    ]


def _partitions(
    state: ControllerState, asked: Asked, present: int, replication_factor: int
) -> list[Partition]:
    if asked.assignments is None:
        return placed(state, placements(state, asked.count - present, replication_factor))
    partitions = []
    for number, assignment in enumerate(asked.assignments, start=present):
        check_assignment(state, assignment.broker_ids, replication_factor)
        partitions.append(assigned(state, number, assignment.broker_ids))
    return partitions
