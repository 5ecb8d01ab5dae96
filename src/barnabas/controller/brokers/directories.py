"""AssignReplicasToDirs: a broker tells which directory holds which replica (KIP-858)."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.controller.decision import Context, Decision
from barnabas.controller.replication.elections import updates_after
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
    """Replicas found in a directory that is offline leave their ISRs."""
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
        for asked in directory.topics:
            results = []
            for number in (one.partition_index for one in asked.partitions):
                found = _find(state, broker.id, Uuid(asked.topic_id), number)
                if isinstance(found, ErrorCode):
                    results.append(_Response.PartitionData(partition_index=number, error_code=found))
                    continue
                records += _assigned(state, found, broker.id, directory_id)
                if not is_online:
                    in_offline[found[0].id, number] = found
                results.append(_Response.PartitionData(partition_index=number, error_code=0))
            topics.append(_Response.TopicData(topic_id=asked.topic_id, partitions=results))
        directories.append(_Response.DirectoryData(id=directory_id, topics=topics))
    records += updates_after(state, in_offline.values(), leaving=broker.id)
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


def _assigned(
    state: ControllerState, found: tuple[Topic, int, Partition], broker_id: int, directory: Uuid
) -> list[Message]:
    change = PartitionChange(state, *found)
    change.directories[broker_id] = directory
    record = change.build()
    return [] if record is None else [record]
