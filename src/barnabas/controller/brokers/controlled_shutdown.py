"""ControlledShutdown: a broker of a cluster on ZooKeeper is about to stop and moves its leaderships away.

A partition with one replica stays where it is, and so does one whose other replicas are not in sync: the
broker learns of the latter and tries again.
"""

from __future__ import annotations

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.decision import Context, Decision
from barnabas.controller.replication.elections import leader_and_isr_updates
from barnabas.controller.state import ControllerState
from barnabas.metadata.topics import NO_LEADER
from barnabas.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from barnabas.protocol.records.metadata import BrokerRegistrationChangeRecord, PartitionChangeRecord
from barnabas.protocol.schema import Message

ANY_EPOCH = -1
SHUTTING_DOWN = 1


def controlled_shutdown(
    state: ControllerState, request: ControlledShutdownRequest, context: Context
) -> Decision:
    broker_id = request.broker_id
    if broker_id not in state.image.brokers:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {broker_id} does not exist.")
    epoch = request.broker_epoch
    broker = (
        state.image.brokers[broker_id] if epoch == ANY_EPOCH else state.check_broker_epoch(broker_id, epoch)
    )
    replicated = [entry for entry in state.in_isr(broker_id) if len(entry[2].replicas) > 1]
    led = [entry for entry in replicated if entry[2].leader == broker_id]
    followed = [entry for entry in replicated if entry[2].leader not in (broker_id, NO_LEADER)]
    moves = [
        record
        for record in leader_and_isr_updates(state, [*led, *followed], broker_to_remove=broker_id)
        if isinstance(record, PartitionChangeRecord) and record.leader != NO_LEADER
    ]
    moved = {(record.topic_id, record.partition_id) for record in moves}
    records: list[Message] = [*moves]
    if not broker.in_controlled_shutdown:
        records.insert(
            0,
            BrokerRegistrationChangeRecord(
                broker_id=broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=SHUTTING_DOWN
            ),
        )
    reply = ControlledShutdownResponse(
        error_code=0,
        remaining_partitions=[
            ControlledShutdownResponse.RemainingPartition(topic_name=topic.name, partition_index=number)
            for topic, number, _ in led
            if (topic.id, number) not in moved
        ],
    )

    def accepted(last_offset: int) -> None:
        # No new replica is placed on it.
        state.heartbeats.start_shutdown(broker_id, last_offset)

    return Decision(records, reply, accepted, atomic=False)
