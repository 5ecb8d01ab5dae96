"""AlterPartitionReassignments and ListPartitionReassignments: replicas move (KIP-455, KIP-860)."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.decision import NO_FAULT, Context, Decision, Fault
from barnabas.controller.replication.partition_change import Election, PartitionChange
from barnabas.controller.replication.reassignment import begin, in_progress, revert, size_without_move
from barnabas.controller.state import ControllerState
from barnabas.controller.topics.assignments import check_assignment
from barnabas.metadata.topics import Partition, Topic
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
    """Each partition is taken or refused by itself; no replicas at all take a move back."""
    records: list[Message] = []
    responses = []
    for asked in request.topics:
        results = []
        for one in asked.partitions:
            fault = NO_FAULT
            try:
                records += _alter(
                    state,
                    asked.name,
                    one.partition_index,
                    one.replicas,
                    may_resize=request.allow_replication_factor_change,
                )
            except KafkaError as error:
                fault = Fault.of(error)
            results.append(
                _Altered.ReassignablePartitionResponse(
                    partition_index=one.partition_index, error_code=fault.code, error_message=fault.message
                )
            )
        responses.append(_Altered.ReassignableTopicResponse(name=asked.name, partitions=results))
    reply = _Altered(
        throttle_time_ms=0,
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=0,
        # Apache Kafka answers an empty request before it looks at it, with all fields as they were made.
        error_message=None if request.topics else "",
        responses=responses,
    )
    return Decision(records, reply)


def _alter(
    state: ControllerState, name: str, number: int, replicas: list[int] | None, *, may_resize: bool
) -> list[Message]:
    topic = state.image.topic_named(name)
    if topic is None:
        raise _unknown(f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(number)
    if partition is None:
        raise _unknown(f"Unable to find partition {name}:{number}.")
    change = PartitionChange(state, topic, number, partition)
    if replicas is None:
        _take_back(change)
    else:
        _redirect(change, replicas, may_resize=may_resize)
    record = change.build()
    return [] if record is None else [record]


def _unknown(why: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)


def _take_back(change: PartitionChange) -> None:
    if not in_progress(change.partition):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    back = revert(change.partition)
    name = change.topic.name
    if change.state.allows_unclean_election(name):
        change.election = Election.UNCLEAN
    elif back.unclean:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {name}:{change.number} because it would require an"
            " unclean leader election.",
        )
    change.isr, change.replicas = back.isr, back.replicas
    change.removing, change.adding = [], []


def _redirect(change: PartitionChange, replicas: list[int], *, may_resize: bool) -> None:
    check_assignment(change.state, replicas, None)
    size = size_without_move(change.partition)
    if not may_resize and size != len(replicas):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {size} to {len(replicas)}",
        )
    move = begin(change.partition.replicas, replicas)
    change.replicas = move.replicas
    if move.removing:
        change.removing = move.removing
    if move.adding:
        change.adding = move.adding


def list_reassignments(
    state: ControllerState, request: ListPartitionReassignmentsRequest, context: Context
) -> Decision:
    """The moves under way, of the topics named or of all."""
    topics = []
    if request.topics is None:
        for _, topic in sorted(state.image.topics.items()):
            topics += _moving(topic, sorted(topic.partitions))
    else:
        for asked in request.topics:
            named = state.image.topic_named(asked.name)
            if named is not None:
                topics += _moving(named, asked.partition_indexes)
    reply = _Listed(throttle_time_ms=0, error_code=0, error_message=None, topics=topics)
    return Decision([], reply)


def _moving(topic: Topic, numbers: list[int]) -> list[_Listed.OngoingTopicReassignment]:
    moving = [
        _ongoing(number, partition)
        for number in numbers
        if (partition := topic.partitions.get(number)) is not None and in_progress(partition)
    ]
    return [_Listed.OngoingTopicReassignment(name=topic.name, partitions=moving)] if moving else []


def _ongoing(number: int, partition: Partition) -> _Listed.OngoingPartitionReassignment:
    return _Listed.OngoingPartitionReassignment(
        partition_index=number,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )
