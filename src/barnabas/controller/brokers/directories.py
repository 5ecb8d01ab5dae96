"""AssignReplicasToDirs: a broker reports which directory contains which replica (KIP-858)."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.controller.decision import Context, Decision
from barnabas.controller.replication.elections import leader_and_isr_updates
from barnabas.controller.replication.partition_change import PartitionChange
from barnabas.controller.state import ControllerState, has_online_directory
from barnabas.metadata.topics import Partition, Topic
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from barnabas.protocol.schema import Message

_Response = AssignReplicasToDirsResponse


def assign_replicas(
    state: ControllerState, request: AssignReplicasToDirsRequest, context: Context
) -> Decision:
    """AssignReplicasToDirs: replicas in an offline directory leave their ISRs."""
    if not state.directories_supported:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    broker = state.check_broker_epoch(request.broker_id, request.broker_epoch)
    records: list[Message] = []
    in_offline: dict[tuple[Uuid, int], tuple[Topic, int, Partition]] = {}
    directories = []
    for directory in request.directories:
        directory_id = Uuid(directory.id)
        is_online = has_online_directory(broker, directory_id)
        topics = []
        for topic_data in directory.topics:
            results = []
            for number in (partition.partition_index for partition in topic_data.partitions):
                entry = _find(state, broker.id, Uuid(topic_data.topic_id), number)
                if isinstance(entry, ErrorCode):
                    results.append(_Response.PartitionData(partition_index=number, error_code=entry))
                    continue
                records += _assignment_records(state, entry, broker.id, directory_id)
                if not is_online:
                    in_offline[entry[0].id, number] = entry
                results.append(_Response.PartitionData(partition_index=number, error_code=0))
            topics.append(_Response.TopicData(topic_id=topic_data.topic_id, partitions=results))
        directories.append(_Response.DirectoryData(id=directory_id, topics=topics))
    records += leader_and_isr_updates(state, in_offline.values(), broker_to_remove=broker.id)
    reply = _Response(throttle_time_ms=0, error_code=0, directories=directories)
    return Decision(records, reply, atomic=False)


def _find(
    state: ControllerState, broker_id: int, topic_id: Uuid, number: int
) -> tuple[Topic, int, Partition] | ErrorCode:
    topic = state.image.topics.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(number)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return topic, number, partition


def _assignment_records(
    state: ControllerState, entry: tuple[Topic, int, Partition], broker_id: int, directory: Uuid
) -> list[Message]:
    change = PartitionChange(state, *entry)
    change.directories[broker_id] = directory
    record = change.build()
    return [] if record is None else [record]
