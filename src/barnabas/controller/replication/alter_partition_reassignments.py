"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455, KIP-860)."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.decision import NO_ERROR, ApiError, Context, Decision
from barnabas.controller.replication.partition_change import Election, PartitionChange
from barnabas.controller.replication.reassignment import begin, in_progress, replication_factor_of, revert
from barnabas.controller.state import ControllerState
from barnabas.controller.topics.assignments import check_assignment
from barnabas.metadata.topics import NEVER_STORED, Partition, Topic
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.schema import Message

_Altered = AlterPartitionReassignmentsResponse
_Listed = ListPartitionReassignmentsResponse


def alter_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest, context: Context
) -> Decision:
    """Each partition is altered or rejected individually; null replicas cancel a reassignment."""
    records: list[Message] = []
    responses = []
    for topic in request.topics:
        results = []
        for partition in topic.partitions:
            api_error = NO_ERROR
            try:
                records += _alter(
                    state,
                    topic.name,
                    partition.partition_index,
                    partition.replicas,
                    allow_resize=request.allow_replication_factor_change,
                )
            except KafkaError as error:
                api_error = ApiError.of(error)
            results.append(
                _Altered.ReassignablePartitionResponse(
                    partition_index=partition.partition_index,
                    error_code=api_error.code,
                    error_message=api_error.message,
                )
            )
        responses.append(_Altered.ReassignableTopicResponse(name=topic.name, partitions=results))
    reply = _Altered(
        throttle_time_ms=0,
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=0,
        # Apache Kafka answers an empty request early, with the default values of all fields.
        error_message=None if request.topics else "",
        responses=responses,
    )
    return Decision(records, reply)


def _alter(
    state: ControllerState, name: str, number: int, replicas: list[int] | None, *, allow_resize: bool
) -> list[Message]:
    topic = state.image.topic_named(name)
    if topic is None or name in state.deleting:
        raise _unknown(f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(number)
    if partition is None:
        raise _unknown(f"Unable to find partition {name}:{number}.")
    if partition.partition_epoch == NEVER_STORED:
        raise _unknown(f"Partition {name}:{number} has had no leader yet: none of its replicas is alive.")
    change = PartitionChange(state, topic, number, partition)
    if replicas is None:
        _cancel(change)
    else:
        _start(change, replicas, allow_resize=allow_resize)
    record = change.build()
    return [] if record is None else [record]


def _unknown(message: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


def _cancel(change: PartitionChange) -> None:
    if not in_progress(change.partition):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    reverted = revert(change.partition)
    name = change.topic.name
    if change.state.allows_unclean_election(name):
        change.election = Election.UNCLEAN
    elif reverted.unclean:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {name}:{change.number} because it would require an"
            " unclean leader election.",
        )
    change.isr, change.replicas = reverted.isr, reverted.replicas
    change.removing, change.adding = [], []


def _start(change: PartitionChange, replicas: list[int], *, allow_resize: bool) -> None:
    check_assignment(change.state, replicas, None)
    size = replication_factor_of(change.partition)
    if not allow_resize and size != len(replicas):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {size} to {len(replicas)}",
        )
    reassignment = begin(change.partition.replicas, replicas)
    change.is_reassigned = True
    change.replicas = reassignment.replicas
    if reassignment.removing:
        change.removing = reassignment.removing
    if reassignment.adding:
        change.adding = reassignment.adding


def list_reassignments(
    state: ControllerState, request: ListPartitionReassignmentsRequest, context: Context
) -> Decision:
    """The ongoing reassignments of the given topics, or of all topics."""
    topics = []
    if request.topics is None:
        for _, topic in sorted(state.image.topics.items()):
            topics += _ongoing_in(topic, sorted(topic.partitions))
    else:
        for requested in request.topics:
            known = state.image.topic_named(requested.name)
            if known is not None:
                topics += _ongoing_in(known, requested.partition_indexes)
    reply = _Listed(throttle_time_ms=0, error_code=0, error_message=None, topics=topics)
    return Decision([], reply)


def _ongoing_in(topic: Topic, numbers: list[int]) -> list[_Listed.OngoingTopicReassignment]:
    ongoing = [
        _ongoing(number, partition)
        for number in numbers
        if (partition := topic.partitions.get(number)) is not None and in_progress(partition)
    ]
    return [_Listed.OngoingTopicReassignment(name=topic.name, partitions=ongoing)] if ongoing else []


def _ongoing(number: int, partition: Partition) -> _Listed.OngoingPartitionReassignment:
    return _Listed.OngoingPartitionReassignment(
        partition_index=number,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )
