"""AlterPartition: a leader proposes an ISR (KIP-497, KIP-841, KIP-903).

A leader whose disk is full may resign: it proposes the ISR without itself, and one of the others is elected.
Apache Kafka's leaders never do, and its controller refuses it: there the leader goes offline with its disk.
"""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.controller.decision import Context, Decision
from barnabas.controller.replication.partition_change import Election, PartitionChange
from barnabas.controller.state import ControllerState
from barnabas.metadata.topics import LEADER_UNCHANGED, NO_LEADER, RECOVERED, RECOVERING, Partition, Topic
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.schema import Message

# From this version on, each ISR member includes its broker epoch.
EPOCHS_VERSION = 3
ANY_EPOCH = -1

PartitionProposal = AlterPartitionRequest.PartitionData
Result = AlterPartitionResponse.PartitionData


def alter_partition(state: ControllerState, request: AlterPartitionRequest, context: Context) -> Decision:
    """Each partition is altered or rejected individually."""
    if not request.topics:
        return Decision([], AlterPartitionResponse(throttle_time_ms=0, error_code=0, topics=[]))
    state.check_broker_epoch(request.broker_id, request.broker_epoch)
    records: list[Message] = []
    topics = []
    for topic_data in request.topics:
        topic = state.image.topics.get(Uuid(topic_data.topic_id))
        results = []
        for proposal in topic_data.partitions:
            if context.version < EPOCHS_VERSION:
                proposal.new_isr_with_epochs = [
                    AlterPartitionRequest.BrokerState(broker_id=broker_id) for broker_id in proposal.new_isr
                ]
            results.append(_alter(state, request.broker_id, topic, proposal, records))
        topics.append(AlterPartitionResponse.TopicData(topic_id=topic_data.topic_id, partitions=results))
    reply = AlterPartitionResponse(throttle_time_ms=0, error_code=0, topics=topics)
    return Decision(records, reply, atomic=False)


def _alter(
    state: ControllerState,
    broker_id: int,
    topic: Topic | None,
    proposal: PartitionProposal,
    records: list[Message],
) -> Result:
    if topic is None or topic.name in state.deleting:
        return _refused(proposal, ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partitions.get(proposal.partition_index)
    if partition is None:
        return _refused(proposal, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    api_error = _validate(state, broker_id, partition, proposal)
    if api_error is not ErrorCode.NONE:
        return _refused(proposal, api_error)
    change = PartitionChange(state, topic, proposal.partition_index, partition)
    if state.allows_unclean_election(topic.name):
        change.election = Election.UNCLEAN
    change.by_leader = True
    change.isr = [member.broker_id for member in proposal.new_isr_with_epochs]
    change.recovery_state = proposal.leader_recovery_state
    resigns = partition.leader not in change.isr
    record = change.build()
    if resigns and record is not None and record.leader == NO_LEADER:
        return _refused(proposal, ErrorCode.INVALID_REQUEST)
    if record is not None:
        records.append(record)
        partition = partition.changed_by(record)
        if record.leader not in (broker_id, LEADER_UNCHANGED):
            # The leader moved, as it resigned or the new ISR completed a reassignment: the old one must
            # refresh metadata.
            return _refused(proposal, ErrorCode.NEW_LEADER_ELECTED)
    return Result(
        partition_index=proposal.partition_index,
        error_code=0,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _refused(proposal: PartitionProposal, code: ErrorCode) -> Result:
    return Result(
        partition_index=proposal.partition_index,
        error_code=code,
        leader_id=0,
        leader_epoch=0,
        isr=[],
        partition_epoch=0,
    )


def _validate(
    state: ControllerState, broker_id: int, partition: Partition, proposal: PartitionProposal
) -> ErrorCode:
    """Returns the first error in a proposal, in the order of Apache Kafka's checks."""
    if proposal.leader_epoch > partition.leader_epoch or proposal.partition_epoch > partition.partition_epoch:
        # The broker has seen a newer controller than this one.
        return ErrorCode.NOT_CONTROLLER
    if proposal.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if proposal.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    isr = [member.broker_id for member in proposal.new_isr_with_epochs]
    if not isr or len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    if partition.leader not in isr and set(isr) != set(partition.isr) - {partition.leader}:
        return ErrorCode.INVALID_REQUEST
    if proposal.leader_recovery_state == RECOVERING and len(isr) > 1:
        return ErrorCode.INVALID_REQUEST
    if partition.leader_recovery_state == RECOVERED and proposal.leader_recovery_state == RECOVERING:
        return ErrorCode.INVALID_REQUEST
    eligible = all(_is_eligible(state, member) for member in proposal.new_isr_with_epochs)
    return ErrorCode.NONE if eligible else ErrorCode.INELIGIBLE_REPLICA


def _is_eligible(state: ControllerState, member: AlterPartitionRequest.BrokerState) -> bool:
    broker = state.image.brokers.get(member.broker_id)
    if broker is None or not state.is_active(member.broker_id):
        return False
    return member.broker_epoch in (ANY_EPOCH, broker.epoch)
