"""A broker as the controller sees it: told what to lead and to follow, and asking for larger ISRs.

It has no logs: a replica has caught up as soon as its broker is alive.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from barnabas.protocol.schema import Message

Key = tuple[str, int]
LEADER_DURING_DELETE = -2
ALTER_PARTITION_VERSION = 3


class StandInBroker:
    """What one process of a broker knows."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch = -1
        self.controller_epoch = 0
        self.states: dict[Key, LeaderAndIsrRequest.PartitionState] = {}
        self.topic_ids: dict[str, Uuid] = {}
        self.known: dict[Key, UpdateMetadataRequest.PartitionState] = {}
        self.live: dict[int, int] = {}

    def carry_out(self, request: Message) -> Message:
        """The answer to a request of a controller; those of earlier ones are refused."""
        assert isinstance(request, LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest)
        error = ErrorCode.NONE
        # A newer one is possible: the answer to the registration is still on its way.
        if request.broker_epoch < self.broker_epoch:
            error = ErrorCode.STALE_BROKER_EPOCH
        elif request.controller_epoch < self.controller_epoch:
            error = ErrorCode.STALE_CONTROLLER_EPOCH
        else:
            self.controller_epoch = request.controller_epoch
        match request:
            case UpdateMetadataRequest():
                if not error:
                    self._update_metadata(request)
                return UpdateMetadataResponse(error_code=error)
            case LeaderAndIsrRequest():
                topics = [] if error else [self._lead_and_follow(topic) for topic in request.topic_states]
                return LeaderAndIsrResponse(error_code=error, topics=topics)
            case _:
                errors = [] if error else list(self._stop(request))
                return StopReplicaResponse(error_code=error, partition_errors=errors)

    def _update_metadata(self, request: UpdateMetadataRequest) -> None:
        self.live = {broker.id: 0 for broker in request.live_brokers}
        for topic in request.topic_states:
            for state in topic.partition_states:
                key = (topic.topic_name, state.partition_index)
                if state.leader == LEADER_DURING_DELETE:
                    self.known.pop(key, None)
                else:
                    self.known[key] = state

    def _lead_and_follow(self, topic: LeaderAndIsrRequest.TopicState) -> LeaderAndIsrResponse.TopicError:
        topic_id = Uuid(topic.topic_id)
        if self.topic_ids.get(topic.topic_name) != topic_id:
            for key in [key for key in self.states if key[0] == topic.topic_name]:
                del self.states[key]
            self.topic_ids[topic.topic_name] = topic_id
        errors = []
        for state in topic.partition_states:
            key = (topic.topic_name, state.partition_index)
            known = self.states.get(key)
            if known is None or known.leader_epoch <= state.leader_epoch:
                self.states[key] = state
            errors.append(
                LeaderAndIsrResponse.PartitionError(partition_index=state.partition_index, error_code=0)
            )
        return LeaderAndIsrResponse.TopicError(topic_id=topic_id, partition_errors=errors)

    def _stop(self, request: StopReplicaRequest) -> Iterator[StopReplicaResponse.PartitionError]:
        for topic in request.topic_states:
            for each in topic.partition_states:
                key = (topic.topic_name, each.partition_index)
                known = self.states.get(key)
                if known is not None and not 0 <= each.leader_epoch < known.leader_epoch:
                    del self.states[key]
                yield StopReplicaResponse.PartitionError(
                    topic_name=topic.topic_name, partition_index=each.partition_index, error_code=0
                )

    def proposal(self) -> AlterPartitionRequest | None:
        """Larger ISRs of partitions that it leads, as far as it knows of any."""
        topics: dict[str, AlterPartitionRequest.TopicData] = {}
        for (name, number), state in sorted(self.states.items()):
            missing = [
                replica for replica in state.replicas if replica in self.live and replica not in state.isr
            ]
            if state.leader != self.broker_id or not missing:
                continue
            topic = topics.setdefault(
                name, AlterPartitionRequest.TopicData(topic_id=self.topic_ids[name], partitions=[])
            )
            topic.partitions.append(
                AlterPartitionRequest.PartitionData(
                    partition_index=number,
                    leader_epoch=state.leader_epoch,
                    new_isr_with_epochs=[
                        AlterPartitionRequest.BrokerState(broker_id=replica)
                        for replica in (*state.isr, *missing)
                    ],
                    partition_epoch=state.partition_epoch,
                )
            )
        if not topics:
            return None
        return AlterPartitionRequest(
            broker_id=self.broker_id, broker_epoch=self.broker_epoch, topics=list(topics.values())
        )

    def altered(self, response: Message) -> None:
        """What the controller made of a proposal."""
        if not isinstance(response, AlterPartitionResponse):
            return
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        for topic in response.topics:
            for result in topic.partitions:
                key = (names.get(Uuid(topic.topic_id), ""), result.partition_index)
                state = self.states.get(key)
                if state is None or result.error_code or result.leader_epoch != state.leader_epoch:
                    continue
                state.isr = list(result.isr)
                state.partition_epoch = result.partition_epoch
