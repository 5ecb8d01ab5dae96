"""AlterPartition: a leader proposes an ISR (KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.controller.decision import Context, Decision
from barnabas.controller.replication.partition_change import Election, PartitionChange
from barnabas.controller.state import ControllerState
from barnabas.metadata.topics import LEADER_UNCHANGED, RECOVERED, RECOVERING, Partition, Topic
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.schema import Message

# From this version on each member of the ISR comes with its broker epoch.
EPOCHS_VERSION = 3
ANY_EPOCH = -1

Asked = AlterPartitionRequest.PartitionData
Result = AlterPartitionResponse.PartitionData


def alter_partition(state: ControllerState, request: AlterPartitionRequest, context: Context) -> Decision:
    """Each partition is taken or refused by itself."""
    state.check_broker_epoch(request.broker_id, request.broker_epoch)
    records: list[Message] = []
    topics = []
    for asked in request.topics:
        topic = state.image.topics.get(Uuid(asked.topic_id))
        results = []
        for one in asked.partitions:
            if context.version < EPOCHS_VERSION:
                one.new_isr_with_epochs = [
                    AlterPartitionRequest.BrokerState(broker_id=broker_id) for broker_id in one.new_isr
                ]
            results.append(_alter(state, request.broker_id, topic, one, records))
        topics.append(AlterPartitionResponse.TopicData(topic_id=asked.topic_id, partitions=results))
    reply = AlterPartitionResponse(throttle_time_ms=0, error_code=0, topics=topics)
    return Decision(records, reply, atomic=False)


def _alter(
    state: ControllerState, broker_id: int, topic: Topic | None, asked: Asked, records: list[Message]
) -> Result:
    if topic is None:
        return _refused(asked, ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partitions.get(asked.partition_index)
    if partition is None:
        return _refused(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    fault = _fault(state, broker_id, partition, asked)
    if fault is not ErrorCode.NONE:
        return _refused(asked, fault)
    change = PartitionChange(state, topic, asked.partition_index, partition)
    if state.allows_unclean_election(topic.name):
        change.election = Election.UNCLEAN
    change.isr = [member.broker_id for member in asked.new_isr_with_epochs]
    change.recovery_state = asked.leader_recovery_state
    record = change.build()
    if record is not None:
        records.append(record)
        partition = partition.changed_by(record)
        if record.leader not in (broker_id, LEADER_UNCHANGED):
            # The new ISR completed a reassignment, and the leader moved with it: the old one must look anew.
            return _refused(asked, ErrorCode.NEW_LEADER_ELECTED)
    return Result(
        partition_index=asked.partition_index,
        error_code=0,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _refused(asked: Asked, code: ErrorCode) -> Result:
    return Result(
        partition_index=asked.partition_index,
        error_code=code,
        leader_id=0,
        leader_epoch=0,
        isr=[],
        partition_epoch=0,
    )


def _fault(state: ControllerState, broker_id: int, partition: Partition, asked: Asked) -> ErrorCode:
    """The first thing wrong with a proposal, in the order in which Apache Kafka looks."""
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        # The broker has seen a newer controller than this one.
        return ErrorCode.NOT_CONTROLLER
    if asked.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    isr = [member.broker_id for member in asked.new_isr_with_epochs]
    if not isr or len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    if partition.leader not in isr:
        return ErrorCode.INVALID_REQUEST
    if asked.leader_recovery_state == RECOVERING and len(isr) > 1:
        return ErrorCode.INVALID_REQUEST
    if partition.leader_recovery_state == RECOVERED and asked.leader_recovery_state == RECOVERING:
        return ErrorCode.INVALID_REQUEST
    eligible = all(_is_eligible(state, member) for member in asked.new_isr_with_epochs)
    return ErrorCode.NONE if eligible else ErrorCode.INELIGIBLE_REPLICA


def _is_eligible(state: ControllerState, member: AlterPartitionRequest.BrokerState) -> bool:
    broker = state.image.brokers.get(member.broker_id)
    if broker is None or not state.is_active(member.broker_id):
        return False
    return member.broker_epoch in (ANY_EPOCH, broker.epoch)
